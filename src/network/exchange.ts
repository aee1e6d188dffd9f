import { fetch, type Agent, type Response } from "undici";
import type { Limits } from "../limits/limits.ts";
import type { Json } from "../lib/json.ts";
import { authorityOf, NetworkRefused, portOf, type NetworkRules } from "./rules.ts";
import { bareHostname } from "./allow-list.ts";

export type ExchangeLimits = Pick<Limits, "fetchMs" | "fetchRequestBytes" | "fetchResponseBytes">;

/** The wanted request; nothing in it is trusted. */
export interface Wanted {
  readonly url: string;
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly redirect: "follow" | "manual" | "error";
  /** The whole body, or a note that it comes in parts, whose total length may be known. */
  readonly body: Uint8Array | { readonly length: number | undefined } | undefined;
}

/** Headers that the connection owns, not the program. */
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
/** The longest part of an answer's body. */
const PART_BYTES = 256 * 1024;

/** One request and its answer; bodies flow as fast as they are read. */
export class Exchange {
  readonly #wanted: Wanted;
  readonly #rules: NetworkRules;
  readonly #limits: ExchangeLimits;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #sent: TransformStream<Uint8Array, Uint8Array> | undefined;
  #writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #rest: Uint8Array | undefined;
  #sentBytes = 0;
  #receivedBytes = 0;

  constructor(wanted: Wanted, rules: NetworkRules, limits: ExchangeLimits) {
    this.#wanted = wanted;
    this.#rules = rules;
    this.#limits = limits;
    const { fetchMs } = limits;
    const late = `it took longer than the limit fetchMs of ${fetchMs} ms`;
    this.#timer = setTimeout(() => void this.#fail(late), fetchMs).unref();
    if (wanted.body && !(wanted.body instanceof Uint8Array)) {
      this.#sent = new TransformStream();
      this.#writer = this.#sent.writable.getWriter();
      this.#writer.closed.catch(() => {});
    }
  }

  /** The head of the answer. Rejects with a reason for the program. */
  async open(agent: Agent): Promise<{ response: Response; hasBody: boolean }> {
    const { url: text, method, headers, redirect, body } = this.#wanted;
    try {
      const url = this.#rules.checkUrl(text);
      this.#count(body instanceof Uint8Array ? body.length : (body?.length ?? 0));
      const response = await fetch(url, {
        method,
        headers: headersOf(headers, body),
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
      const worded = this.#worded(error);
      this.close();
      throw worded;
    }
  }

  /** Accepts a part of the request's body once there is room for it; undefined ends the body. */
  async write(part: Uint8Array | undefined): Promise<void> {
    if (!this.#writer) throw new Error("its body was sent already");
    try {
      if (!part) return await this.#writer.close();
      if (!(this.#wanted.body as { length?: number }).length) this.#count(part.length);
      await this.#writer.write(part);
    } catch (error) {
      throw this.#worded(error);
    }
  }

  /** The next part of the answer's body; undefined at its end. */
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
          throw this.#fail(`its answer is longer than the limit fetchResponseBytes of ${fetchResponseBytes}`);
        }
      }
      if (part.length > PART_BYTES) this.#rest = part.subarray(PART_BYTES);
      return part.subarray(0, PART_BYTES);
    } catch (error) {
      const worded = this.#worded(error);
      this.close();
      throw worded;
    }
  }

  /** Ends it, whatever is left. */
  close(): void {
    clearTimeout(this.#timer);
    this.#stop.abort(new NetworkRefused("it was given up"));
    this.#writer?.abort().catch(() => {});
  }

  #count(bytes: number): void {
    this.#sentBytes += bytes;
    const { fetchRequestBytes } = this.#limits;
    if (this.#sentBytes <= fetchRequestBytes) return;
    throw this.#fail(`its body is longer than the limit fetchRequestBytes of ${fetchRequestBytes}`);
  }

  #fail(why: string): NetworkRefused {
    const error = new NetworkRefused(why);
    this.#stop.abort(error);
    this.close();
    return error;
  }

  /** Names the host, and no more of the URL: what follows the host may be a secret. */
  #worded(error: unknown): Error {
    const { reason } = this.#stop.signal as { reason?: unknown };
    const cause = refusalIn(reason) ?? refusalIn(error) ?? deepest(error);
    const url = URL.canParse(this.#wanted.url) ? new URL(this.#wanted.url) : undefined;
    const what = url ? `fetching from ${authorityOf(bareHostname(url), portOf(url))}` : "fetching";
    return new Error(`${what} failed: ${cause.message}`, { cause: error });
  }
}

function headersOf(headers: Wanted["headers"], body: Wanted["body"]): [string, string][] {
  const sent = headers.filter(([name]) => !NOT_SENT.has(name.toLowerCase())).map(([...pair]): [string, string] => pair);
  if (!sent.some(([name]) => name.toLowerCase() === "user-agent")) sent.push(["User-Agent", "Berth"]);
  const length = body instanceof Uint8Array ? undefined : body?.length;
  if (length !== undefined) sent.push(["Content-Length", String(length)]);
  return sent;
}

/** The head in the form that is sent to the program. */
export function headOf({ response, hasBody }: { response: Response; hasBody: boolean }): Json {
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

function refusalIn(error: unknown): NetworkRefused | undefined {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof NetworkRefused) return each;
  return undefined;
}

/** Finds the cause: `fetch failed` says nothing. */
function deepest(error: unknown): Error {
  let found: unknown = error;
  while (found instanceof Error && found.cause instanceof Error) found = found.cause;
  if (found instanceof AggregateError && found.errors[0] instanceof Error) return found.errors[0];
  return found instanceof Error ? found : new Error(String(found));
}
