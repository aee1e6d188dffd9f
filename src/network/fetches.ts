import { fetch, type Agent, type Response } from "undici";
import { clock, type Timer } from "../lib/clock.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { ReadingTime } from "../lib/reading-time.ts";
import { fixed } from "../limits/fixed.ts";
import { type Limits, limitVariable } from "../limits/limits.ts";
import { openAgent, type Resolve } from "./agent.ts";
import { bareHostname, type AllowedHost } from "./allow-list.ts";
import {
  listRules,
  authorityOf,
  NetworkRefused,
  portOf,
  type ListOptions,
  type NetworkRules,
} from "./network-rules.ts";

const bounds = fixed({
  /** Concurrent fetches of all calls of a server. */
  openFetches: 32,
  /** The size of a request body. */
  fetchRequestBytes: 16 * 1024 * 1024,
});

/**
 * The network of one server's code: fetches for it, in steps, only what its entry allows. Bounds the number, age and
 * size of open fetches. Knows no process and no wire format.
 */
export type FetchLimits = Pick<Limits, "fetchMs" | "fetchResponseBytes" | "fetchesPerCall">;

/** The call that a fetch belongs to: whatever it leaves open ends with it, or when it may fetch no more. */
interface FetchingCall {
  onOver(close: (why: string) => void): void;
}

export type FetchStep = "fetch" | "fetchWrite" | "fetchRead" | "fetchAbort";

interface OpenedByCall {
  readonly exchanges: Map<number, Exchange>;
  count: number;
  /** Why it may fetch no more. */
  over: string | undefined;
}

export class Fetches {
  readonly #limits: FetchLimits;
  readonly #rules: NetworkRules;
  readonly #agent: Agent;
  readonly #calls = new WeakMap<FetchingCall, OpenedByCall>();
  #open = 0;

  constructor(allowed: readonly AllowedHost[], limits: FetchLimits, options: ListOptions & { resolve?: Resolve }) {
    this.#limits = limits;
    this.#rules = listRules(allowed, options);
    const { resolve } = options;
    this.#agent = openAgent({
      rules: this.#rules,
      connections: bounds.openFetches,
      readingTime: new ReadingTime(),
      ...(resolve && { resolve }),
    });
  }

  /**
   * - `fetch`: `{id, url, method, headers: [name, value][], redirect, base64?, length?, parts?}` → `{status, statusText,
   *   url, redirected, headers, hasBody}`. With `parts` the body comes by `fetchWrite`, in `length` bytes if it is known.
   * - `fetchWrite`: `{id, base64?}` → null, once more can be written; without `base64` the body ends.
   * - `fetchRead`: `{id}` → `{base64}`, or null at the end of the answer's body.
   * - `fetchAbort`: `{id}` → null.
   */
  async request(step: FetchStep, params: JsonObject, call: FetchingCall): Promise<Json> {
    const id = numberIn(params, "id");
    const opened = this.#openedBy(call);
    if (step === "fetch") return this.#begin(id, parseRequest(params), opened);
    const exchange = opened.exchanges.get(id);
    if (!exchange) {
      if (step === "fetchAbort") return null;
      throw new Error("this fetch is over");
    }
    switch (step) {
      case "fetchWrite":
        await exchange.write(bytesIn(params));
        return null;
      case "fetchRead": {
        const part = await exchange.read().catch((error: unknown) => {
          this.#end(id, opened);
          throw error;
        });
        if (part) return { base64: Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString("base64") };
        this.#end(id, opened);
        return null;
      }
      case "fetchAbort":
        this.#end(id, opened);
        return null;
    }
  }

  async #begin(id: number, request: FetchRequest, opened: OpenedByCall): Promise<Json> {
    const { fetchesPerCall } = this.#limits;
    const { openFetches } = bounds;
    if (opened.over !== undefined) throw new Error(opened.over);
    if (opened.exchanges.has(id)) throw new Error("a fetch with this id already exists");
    if (++opened.count > fetchesPerCall) {
      throw new Error(`one call may fetch ${fetchesPerCall} times (${limitVariable("fetchesPerCall")})`);
    }
    if (this.#open >= openFetches) {
      throw new Error(`${openFetches} fetches of this server are open; read or cancel some`);
    }
    const exchange = new Exchange(request, this.#rules, this.#limits);
    this.#open++;
    opened.exchanges.set(id, exchange);
    try {
      const head = await exchange.open(this.#agent);
      if (!head.hasBody) this.#end(id, opened);
      return serializeHead(head);
    } catch (error) {
      this.#end(id, opened);
      throw error;
    }
  }

  #end(id: number, { exchanges }: OpenedByCall, why?: string): void {
    const exchange = exchanges.get(id);
    if (!exchange) return;
    exchanges.delete(id);
    this.#open--;
    exchange.close(why);
  }

  #openedBy(call: FetchingCall): OpenedByCall {
    const existing = this.#calls.get(call);
    if (existing) return existing;
    const opened: OpenedByCall = { exchanges: new Map(), count: 0, over: undefined };
    this.#calls.set(call, opened);
    call.onOver((why) => {
      opened.over = why;
      for (const id of opened.exchanges.keys()) this.#end(id, opened, why);
    });
    return opened;
  }
}

const REDIRECTS: readonly unknown[] = ["follow", "manual", "error"] satisfies FetchRequest["redirect"][];

function parseRequest(params: JsonObject): FetchRequest {
  const { url, method, headers, redirect = "follow", length, parts } = params;
  if (typeof url !== "string" || typeof method !== "string") throw new TypeError('"url" and "method" must be strings');
  if (!REDIRECTS.includes(redirect)) throw new TypeError('"redirect" must be "follow", "manual" or "error"');
  const isHeader = (pair: Json): pair is [string, string] =>
    Array.isArray(pair) && pair.length === 2 && pair.every((text) => typeof text === "string");
  if (!Array.isArray(headers) || !headers.every(isHeader)) throw new TypeError('"headers" must be pairs of strings');
  const bodyLength = length === undefined ? undefined : numberIn(params, "length");
  const body = parts === true ? { length: bodyLength } : bytesIn(params);
  return { url, method, headers, redirect: redirect as FetchRequest["redirect"], body };
}

function numberIn(params: JsonObject, name: string): number {
  const value = params[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw new TypeError(`"${name}" must be a whole number`);
  }
  return value;
}

function bytesIn(params: JsonObject): Uint8Array | undefined {
  const { base64 } = params;
  if (base64 === undefined) return undefined;
  if (typeof base64 !== "string") throw new TypeError('"base64" must be a string');
  return Buffer.from(base64, "base64");
}

/** The request from the guest; nothing in it is trusted. */
interface FetchRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly redirect: "follow" | "manual" | "error";
  /** The whole body, or a note that it comes in parts, with its total length if known. */
  readonly body: Uint8Array | { readonly length: number | undefined } | undefined;
}

/** Headers that the connection sets, not the guest. */
const NOT_SENT = new Set([
  "host",
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "transfer-encoding",
  "content-length",
  "te",
  "trailer",
  "upgrade",
  "expect",
]);
/** The maximum length of a part of a response body. */
const PART_BYTES = 256 * 1024;

/** One request and its response; bodies are transferred as fast as they are read. */
class Exchange {
  readonly #request: FetchRequest;
  readonly #rules: NetworkRules;
  readonly #limits: FetchLimits;
  readonly #stop = new AbortController();
  readonly #timer: Timer;
  readonly #sent: TransformStream<Uint8Array, Uint8Array> | undefined;
  #writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #rest: Uint8Array | undefined;
  #sentBytes = 0;
  #receivedBytes = 0;

  constructor(request: FetchRequest, rules: NetworkRules, limits: FetchLimits) {
    this.#request = request;
    this.#rules = rules;
    this.#limits = limits;
    const { fetchMs } = limits;
    const late = `it took longer than ${fetchMs} ms (${limitVariable("fetchMs")})`;
    this.#timer = clock.after(fetchMs, () => void this.#fail(late)).unref();
    if (request.body && !(request.body instanceof Uint8Array)) {
      this.#sent = new TransformStream();
      this.#writer = this.#sent.writable.getWriter();
      this.#writer.closed.catch(() => {});
    }
  }

  /** The head of the response. Rejects with a reason for the guest. */
  async open(agent: Agent): Promise<{ response: Response; hasBody: boolean }> {
    const { url: text, method, headers, redirect, body } = this.#request;
    try {
      const url = this.#rules.checkUrl(text);
      this.#count(body instanceof Uint8Array ? body.length : (body?.length ?? 0));
      const response = await fetch(url, {
        method,
        headers: requestHeaders(headers, body),
        redirect,
        dispatcher: agent,
        signal: this.#stop.signal,
        ...(body && { body: body instanceof Uint8Array ? body : this.#sent!.readable, duplex: "half" }),
      });
      if (response.body) {
        this.#reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
      } else this.close();
      return { response, hasBody: response.body !== null };
    } catch (error) {
      const described = this.#describe(error);
      this.close();
      throw described;
    }
  }

  /** Accepts a part of the request's body once there is capacity for it; undefined ends the body. */
  async write(part: Uint8Array | undefined): Promise<void> {
    if (!this.#writer) throw new Error("its body was already sent");
    try {
      if (!part) return await this.#writer.close();
      if (!(this.#request.body as { length?: number }).length) this.#count(part.length);
      await this.#writer.write(part);
    } catch (error) {
      throw this.#describe(error);
    }
  }

  /** Undefined at the end of the body. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      let part = this.#rest;
      this.#rest = undefined;
      while (!part || part.length === 0) {
        const step = await this.#reader?.read();
        if (!step || step.done) {
          this.close();
          return undefined;
        }
        part = step.value;
        this.#receivedBytes += part.length;
        const { fetchResponseBytes } = this.#limits;
        if (this.#receivedBytes > fetchResponseBytes) {
          throw this.#fail(
            `its answer is longer than ${fetchResponseBytes} bytes (${limitVariable("fetchResponseBytes")})`,
          );
        }
      }
      if (part.length > PART_BYTES) this.#rest = part.subarray(PART_BYTES);
      return part.subarray(0, PART_BYTES);
    } catch (error) {
      const described = this.#describe(error);
      this.close();
      throw described;
    }
  }

  close(why = "it was abandoned"): void {
    this.#timer.clear();
    this.#stop.abort(new NetworkRefused(why));
    this.#writer?.abort().catch(() => {});
  }

  #count(bytes: number): void {
    this.#sentBytes += bytes;
    const { fetchRequestBytes } = bounds;
    if (this.#sentBytes <= fetchRequestBytes) return;
    throw this.#fail(`its body is longer than ${fetchRequestBytes} bytes`);
  }

  #fail(why: string): NetworkRefused {
    const error = new NetworkRefused(why);
    this.#stop.abort(error);
    this.close();
    return error;
  }

  /** Names the host, and no more of the URL: the rest may contain a secret. */
  #describe(error: unknown): Error {
    const { reason } = this.#stop.signal as { reason?: unknown };
    const cause = findRefusal(reason) ?? findRefusal(error) ?? rootCause(error);
    const url = URL.canParse(this.#request.url) ? new URL(this.#request.url) : undefined;
    const what = url ? `fetching from ${authorityOf(bareHostname(url), portOf(url))}` : "fetching";
    return new Error(`${what} failed: ${cause.message}`, { cause: error });
  }
}

function requestHeaders(headers: FetchRequest["headers"], body: FetchRequest["body"]): [string, string][] {
  const sent = headers.filter(([name]) => !NOT_SENT.has(name.toLowerCase())).map(([...pair]): [string, string] => pair);
  if (!sent.some(([name]) => name.toLowerCase() === "user-agent")) sent.push(["User-Agent", "Berth"]);
  const length = body instanceof Uint8Array ? undefined : body?.length;
  if (length !== undefined) sent.push(["Content-Length", String(length)]);
  return sent;
}

function serializeHead({ response, hasBody }: { response: Response; hasBody: boolean }): Json {
  const { status, statusText, url, redirected, headers } = response;
  return {
    status,
    statusText,
    url,
    redirected,
    hasBody,
    headers: Array.from(headers, ([name, value]) => [name, value]),
  };
}

function findRefusal(error: unknown): NetworkRefused | undefined {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof NetworkRefused) return each;
  return undefined;
}

/** Finds the root cause: `fetch failed` is not informative. */
function rootCause(error: unknown): Error {
  let found: unknown = error;
  while (found instanceof Error && found.cause instanceof Error) found = found.cause;
  if (found instanceof AggregateError && found.errors[0] instanceof Error) return found.errors[0];
  return found instanceof Error ? found : new Error(String(found));
}
