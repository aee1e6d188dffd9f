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
  /** Allows native calls only, and no MCP methods. */
  readonly nativeOnly?: boolean;
  readonly input: Readable;
  readonly output: Writable;
  /** `bodyBytes` is the length of a line. */
  readonly limits: { readonly bodyBytes: number };
  readonly log: Log;
}

/**
 * One connection of newline-delimited messages, in both eras (`basic/transports/stdio`, `basic/lifecycle`), and of
 * native calls, which need no handshake. Provides what HTTP has built in: matching requests by id, cancellation, and
 * the end of the connection. The endpoint interprets the messages.
 */
export class StdioConnection {
  /** Resolves when the peer sends nothing more, or no longer reads. */
  readonly ended: Promise<void>;
  readonly #options: StdioOptions;
  readonly #inProgress = new Map<RequestId, Cancellation>();
  readonly #handshake = new Handshake();
  readonly #output: LineOutput;
  readonly #input: HeldInput;
  /** Lines that arrived after one that is being parsed off-thread. */
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
    if (this.#output.drained) await this.#output.drained;
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
      // The endpoint splits a batch into messages.
      if (Array.isArray(body)) await this.#onBatch(body, line);
      else await this.#onMessage(readMessage(body), body, line);
    } catch (error) {
      this.#refuse(idOf(body), error);
    } finally {
      if (--this.#answering === 0) this.#onIdle?.();
    }
  }

  /** Lines after a long one wait, so that everything stays in order; nothing is read in the meantime. */
  async #inOrder(reading: Promise<unknown>): Promise<unknown> {
    const waiting: string[] = (this.#waiting = []);
    this.#input.hold();
    try {
      return await reading;
    } finally {
      // By then, its request has begun.
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
    return this.#receiveOneWay(body, line);
  }

  async #onRequest(request: Request, body: unknown, line: string): Promise<void> {
    const { id, method } = request;
    if (this.#isClosing) throw new BerthError("not_initialized", "the connection is closing");
    if (this.#inProgress.has(id)) {
      throw new BerthError("invalid_request", `another request with the id ${JSON.stringify(id)} is in progress`);
    }
    const cancellation = new Cancellation();
    this.#inProgress.set(id, cancellation);
    try {
      const isNative = isNativeName(method);
      if (!isNative) this.#checkMcp(method);
      const needsNothing = isNative || isModernRequest(request);
      if (!needsNothing && method !== "initialize") await this.#handshake.admit(method);
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
      this.#inProgress.delete(id);
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
    await this.#handshake.admit(undefined);
    if (this.#isClosing) throw new BerthError("not_initialized", "the connection is closing");
    const events = { send: (message: string) => this.#output.write(message) };
    const answer = await this.#receive(body, {
      headers: this.#handshake.headers,
      headerless: true,
      body: line,
      events,
    });
    if (answer.body !== undefined) void this.#output.write(answer.body);
  }

  /** Handles notifications and the client's answers to our requests, none of which is answered. */
  async #receiveOneWay(body: unknown, line: string): Promise<void> {
    if (this.#options.nativeOnly) return;
    await this.#handshake.finished;
    const { status, body: refusal } = await this.#receive(body, {
      headers: this.#handshake.headers,
      headerless: true,
      body: line,
    });
    if (isObject(body) && body["method"] === "notifications/initialized") await this.#listen();
    if (status >= 400) this.#options.log.debug({ refusal }, "a message that expects no answer was refused");
  }

  /** Messages that a legacy server sends unprompted have their own stream over HTTP; here they share the output. */
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
    this.#inProgress.get(id as RequestId)?.abort();
  }

  #refuse(id: RequestId | null, error: unknown): void {
    if (!(error instanceof BerthError)) this.#options.log.error({ err: error }, "answering a line failed");
    void this.#output.write(errorText(id, error instanceof BerthError ? error : new BerthError("internal")));
  }

  #break(): void {
    if (this.#output.isBroken) return;
    this.#output.isBroken = true;
    this.#isClosing = true;
    for (const cancellation of this.#inProgress.values()) cancellation.abort();
    this.#onIdle?.();
    this.#end();
  }
}

function isModernRequest({ method, params }: Request): boolean {
  const meta = params["_meta"];
  return (isObject(meta) && meta[META_PROTOCOL_VERSION] !== undefined) || method === "server/discover";
}

const BEFORE_HANDSHAKE: ReadonlySet<string> = new Set(["initialize", "ping"]);

/**
 * The handshake of a legacy client on its only connection: its result, and the messages waiting for it. Version and
 * session are stored as the headers that an HTTP client would send.
 */
class Handshake {
  #settled: Record<string, string> | undefined;
  #inProgress: Promise<void> | undefined;

  get headers(): Record<string, string> {
    return this.#settled ?? {};
  }

  /**
   * Resolves when the handshake in progress is over, which later legacy messages wait for; undefined if there is none.
   */
  get finished(): Promise<void> | undefined {
    return this.#inProgress;
  }

  /** Resolves when `method`, or a batch, may be executed. Rejects before the first handshake. */
  async admit(method: string | undefined): Promise<void> {
    if (this.#inProgress) await this.#inProgress;
    if (!this.#settled && (method === undefined || !BEFORE_HANDSHAKE.has(method))) {
      throw new BerthError("not_initialized", 'send "initialize" first');
    }
  }

  async settle(answering: Promise<Answer>): Promise<Answer> {
    let done!: () => void;
    this.#inProgress = new Promise((resolve) => (done = resolve));
    try {
      const answer = await answering;
      const version = negotiatedVersion(answer.body);
      if (version !== undefined) {
        const session = answer.headers?.["Mcp-Session-Id"] ?? answer.headers?.["mcp-session-id"];
        this.#settled = {
          "mcp-protocol-version": version,
          ...(session !== undefined && { "mcp-session-id": session }),
        };
      }
      return answer;
    } finally {
      this.#inProgress = undefined;
      done();
    }
  }
}

function negotiatedVersion(body: Answer["body"]): string | undefined {
  const { result } = JSON.parse(String(body ?? "{}")) as { result?: { protocolVersion?: unknown } };
  return typeof result?.protocolVersion === "string" ? result.protocolVersion : undefined;
}
