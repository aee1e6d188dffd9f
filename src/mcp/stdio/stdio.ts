import { isUtf8 } from "node:buffer";
import type { Readable, Writable } from "node:stream";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { LineReader } from "../../lib/line-reader.ts";
import type { Log } from "../../lib/log.ts";
import { beginTrace } from "../../lib/trace.ts";
import { limitVariable } from "../../limits/limits.ts";
import type { Endpoint } from "../endpoint.ts";
import { errorText, idOf, readMessage, type Message, type Request, type RequestId } from "../json-rpc.ts";
import { isNativeName, type Answer, type Post } from "../protocol.ts";
import { META_PROTOCOL_VERSION } from "../revisions.ts";
import { HeldInput, LineOutput } from "./lines.ts";

export interface StdioOptions {
  readonly endpoint: Endpoint;
  readonly tenant: string;
  readonly server: string;
  /** Only native calls are allowed; no method of MCP is known. */
  readonly nativeOnly?: boolean;
  readonly input: Readable;
  readonly output: Writable;
  /** `bodyBytes` is the length of a line. */
  readonly limits: { readonly bodyBytes: number };
  readonly log: Log;
}

/**
 * One connection of newline-delimited messages, in both eras (`basic/transports/stdio`, `basic/lifecycle`), and of
 * native calls, which need no handshake. It owns what HTTP gives for free: requests by their ids, cancellation, the
 * end. The meaning of a message is up to the endpoint.
 */
export class StdioConnection {
  /** Resolves when the other side sends nothing more, or no longer reads. */
  readonly ended: Promise<void>;
  readonly #options: StdioOptions;
  /** Requests in progress, by their ids. */
  readonly #underWay = new Map<RequestId, Cancellation>();
  readonly #handshake = new Handshake();
  readonly #output: LineOutput;
  readonly #input: HeldInput;
  /** The lines that came after one that is parsed elsewhere. */
  #waiting: string[] | undefined;
  #answering = 0;
  #isClosing = false;
  #isListening = false;
  #end!: () => void;
  #onIdle: (() => void) | undefined;

  constructor(options: StdioOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => (this.#end = resolve));
    const { input, output, limits } = options;
    this.#input = new HeldInput(input);
    this.#output = new LineOutput(output, this.#input);
    const lines = new LineReader(limits.bodyBytes, {
      onLine: (line) => this.#read(line),
      onTooLong: () => {
        const most = `a line has at most ${limits.bodyBytes} bytes (${limitVariable("bodyBytes")})`;
        this.#refuse(null, new BerthError("body_too_large", most));
      },
    });
    input.on("data", (chunk: Buffer) => lines.push(chunk));
    input.once("end", () => {
      lines.end();
      this.#end();
    });
    input.once("error", () => this.#break());
    output.once("error", () => this.#break());
    output.once("close", () => this.#break());
  }

  /** Accepts no further requests; resolves when those in progress are answered. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#answering > 0 && !this.#output.isBroken) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    if (this.#output.room) await this.#output.room;
  }

  #read(bytes: Buffer): void {
    if (!isUtf8(bytes)) return this.#refuse(null, new BerthError("parse_error", "it is not UTF-8"));
    const line = bytes.toString();
    if (line.trim() === "") return;
    this.#answering++;
    this.#take(line);
  }

  #take(line: string): void {
    if (this.#waiting) this.#waiting.push(line);
    else void this.#onLine(line);
  }

  async #onLine(line: string): Promise<void> {
    let body: unknown;
    try {
      body = this.#options.endpoint.read(this.#options.tenant, line);
      if (body instanceof Promise) body = await this.#inOrder(body);
      // A batch is up to the endpoint, message by message.
      if (Array.isArray(body)) await this.#onBatch(body, line);
      else await this.#onMessage(readMessage(body), body, line);
    } catch (error) {
      this.#refuse(idOf(body), error);
    } finally {
      if (--this.#answering === 0) this.#onIdle?.();
    }
  }

  /** Lines after a long one wait, so that everything keeps its order; nothing is read meanwhile. */
  async #inOrder(reading: Promise<unknown>): Promise<unknown> {
    const waiting: string[] = (this.#waiting = []);
    this.#input.hold();
    try {
      return await reading;
    } finally {
      // Its request has begun by then.
      setImmediate(() => {
        this.#waiting = undefined;
        for (const line of waiting) this.#take(line);
        this.#input.release();
      });
    }
  }

  #onMessage(message: Message, body: unknown, line: string): Promise<void> {
    if (message.kind === "request") return this.#onRequest(message, body, line);
    if (message.kind === "notification" && message.method === "notifications/cancelled") {
      this.#cancel(message.params["requestId"]);
      return Promise.resolve();
    }
    return this.#tell(body, line);
  }

  async #onRequest(request: Request, body: unknown, line: string): Promise<void> {
    const { id, method } = request;
    if (this.#isClosing) throw new BerthError("not_initialized", "it is ending");
    if (this.#underWay.has(id)) {
      throw new BerthError("invalid_request", `another request with the id ${JSON.stringify(id)} is under way`);
    }
    const cancellation = new Cancellation();
    this.#underWay.set(id, cancellation);
    try {
      const isNative = isNativeName(method);
      if (!isNative) this.#checkMcp(method);
      const needsNothing = isNative || isModernRequest(request);
      if (!needsNothing && method !== "initialize") await this.#handshake.before(method);
      const post: Post = {
        headers: needsNothing ? {} : this.#handshake.headers,
        headerless: true,
        body: line,
        signal: cancellation,
        events: { send: (message) => (cancellation.aborted ? undefined : this.#output.write(String(message))) },
      };
      const answering = this.#receive(body, post);
      const answer = await (method === "initialize" ? this.#handshake.settle(answering) : answering);
      if (answer.body !== undefined && !cancellation.aborted) void this.#output.write(answer.body);
    } finally {
      this.#underWay.delete(id);
    }
  }

  #checkMcp(method: string): void {
    if (!this.#options.nativeOnly) return;
    throw new BerthError(
      "method_not_found",
      `${method}; this connection does not speak MCP, call tools as server.tool`,
    );
  }

  async #onBatch(body: unknown[], line: string): Promise<void> {
    this.#checkMcp("a batch");
    await this.#handshake.before(undefined);
    if (this.#isClosing) throw new BerthError("not_initialized", "it is ending");
    const events = { send: (message: string) => this.#output.write(message) };
    const answer = await this.#receive(body, {
      headers: this.#handshake.headers,
      headerless: true,
      body: line,
      events,
    });
    if (answer.body !== undefined) void this.#output.write(answer.body);
  }

  /** Handles notifications, and the client's answers to our requests; the client waits for nothing. */
  async #tell(body: unknown, line: string): Promise<void> {
    if (this.#options.nativeOnly) return;
    await this.#handshake.over;
    const { status, body: refusal } = await this.#receive(body, {
      headers: this.#handshake.headers,
      headerless: true,
      body: line,
    });
    if (isObject(body) && body["method"] === "notifications/initialized") await this.#listen();
    if (status >= 400) this.#options.log.debug({ refusal }, "a message that expects no answer was refused");
  }

  /**
   * Messages that a legacy server sends of its own accord have a stream of their own over HTTP; here they share the
   * output.
   */
  async #listen(): Promise<void> {
    const { headers } = this.#handshake;
    if (this.#isListening || headers["mcp-session-id"] === undefined) return;
    this.#isListening = true;
    const { endpoint, tenant, server, log } = this.#options;
    const events = { send: (message: string) => this.#output.write(message) };
    const refusal = await endpoint.listen(tenant, server, { headers, events });
    if (refusal) log.error({ refusal: refusal.body }, "changes are not announced on this connection");
  }

  #receive(body: unknown, post: Post): Promise<Answer> {
    const { endpoint, tenant, server } = this.#options;
    return endpoint.receive(tenant, server, body, { ...post, trace: beginTrace() });
  }

  #cancel(id: unknown): void {
    this.#underWay.get(id as RequestId)?.abort();
  }

  #refuse(id: RequestId | null, error: unknown): void {
    if (!(error instanceof BerthError)) this.#options.log.error({ err: error }, "answering a line failed");
    void this.#output.write(errorText(id, error instanceof BerthError ? error : new BerthError("internal")));
  }

  #break(): void {
    if (this.#output.isBroken) return;
    this.#output.isBroken = true;
    this.#isClosing = true;
    for (const cancellation of this.#underWay.values()) cancellation.abort();
    this.#onIdle?.();
    this.#end();
  }
}

/** Modern requests need no handshake: each states its own terms. */
function isModernRequest({ method, params }: Request): boolean {
  const meta = params["_meta"];
  return (isObject(meta) && meta[META_PROTOCOL_VERSION] !== undefined) || method === "server/discover";
}

/** The methods that a legacy client may use before the handshake. */
const BEFORE_HANDSHAKE: ReadonlySet<string> = new Set(["initialize", "ping"]);

/**
 * The handshake of a legacy client on its one connection: its result, and what has to wait for it. The version and the
 * session are kept as the headers that an HTTP client would send.
 */
class Handshake {
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
