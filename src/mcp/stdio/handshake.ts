import { BerthError } from "../../lib/errors.ts";
import type { Answer } from "../protocol.ts";

/** The methods that a legacy client may use before the handshake. */
const BEFORE_HANDSHAKE: ReadonlySet<string> = new Set(["initialize", "ping"]);

/**
 * The handshake of a legacy client on its one connection: its result, and what has to wait for it. The version and the
 * session are kept as the headers that an HTTP client would send.
 */
export class Handshake {
  #settled: Record<string, string> | undefined;
  #underWay: Promise<void> | undefined;

  /** The headers for later messages; empty before the first handshake. */
  get headers(): Record<string, string> {
    return this.#settled ?? {};
  }

  /**
   * Resolves when the handshake in progress is over, which later messages of its era wait for; undefined if there is
   * none.
   */
  get over(): Promise<void> | undefined {
    return this.#underWay;
  }

  /** Resolves when `method`, or a batch, may be carried out. Rejects before the first handshake. */
  async before(method: string | undefined): Promise<void> {
    if (this.#underWay) await this.#underWay;
    if (!this.#settled && (method === undefined || !BEFORE_HANDSHAKE.has(method))) {
      throw new BerthError("not_initialized", 'send "initialize" first');
    }
  }

  /** Keeps the settings in the answer to `initialize`. */
  async settle(answering: Promise<Answer>): Promise<Answer> {
    let done!: () => void;
    this.#underWay = new Promise((resolve) => (done = resolve));
    try {
      const answer = await answering;
      const version = negotiated(answer.body);
      if (version !== undefined) {
        const session = answer.headers?.["Mcp-Session-Id"] ?? answer.headers?.["mcp-session-id"];
        this.#settled = {
          "mcp-protocol-version": version,
          ...(session !== undefined && { "mcp-session-id": session }),
        };
      }
      return answer;
    } finally {
      this.#underWay = undefined;
      done();
    }
  }
}

function negotiated(body: Answer["body"]): string | undefined {
  const { result } = JSON.parse(String(body ?? "{}")) as { result?: { protocolVersion?: unknown } };
  return typeof result?.protocolVersion === "string" ? result.protocolVersion : undefined;
}
