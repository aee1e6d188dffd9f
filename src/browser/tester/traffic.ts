import { createParser, type EventSourceMessage } from "eventsource-parser";
import { SHOWN_MESSAGES } from "./limits.ts";
import { Store } from "./store.ts";

/** The raw wire traffic: one entry for each HTTP message and for each event of a stream. */
export interface Entry {
  readonly number: number;
  readonly at: Date;
  readonly direction: "sent" | "received";
  /** The entry in words: `tools/call`, `result of tools/call`, `202 Accepted`. */
  readonly label: string;
  readonly failed: boolean;
  /** The first line of the HTTP message, if the entry is one. */
  readonly http?: string;
  /** The headers to which MCP gives a meaning. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The parsed body, or its text when it is not JSON; undefined when there is none. */
  readonly body?: unknown;
}

/**
 * Records what the client's transport sends and receives. It sits in `fetch`, below the client, so that it shows what
 * the server sees. It keeps the newest `SHOWN_MESSAGES` entries and never a header with a credential.
 */
export class Traffic {
  readonly entries = new Store<readonly Entry[]>([]);
  #count = 0;
  /**
   * Method names of requests by id, to name what a response answers. Only for this connection: ids start anew with
   * each.
   */
  #methods = new Map<string, string>();

  readonly fetch = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const method = init.method ?? "GET";
    const url = new URL(input, location.href);
    const body = typeof init.body === "string" ? parsed(init.body) : undefined;
    const line = `${method} ${url.pathname}`;
    this.#add("sent", {
      ...this.#describe(body, line),
      http: line,
      headers: meaningful(new Headers(init.headers)),
      body,
    });
    const closed = () => this.#add("sent", { label: `closed the stream of ${line}`, failed: false, headers: [] });
    init.signal?.addEventListener("abort", closed, { once: true });
    const done = () => init.signal?.removeEventListener("abort", closed);
    try {
      return await this.#received(await fetch(input, init), done);
    } catch (error) {
      done();
      const aborted = init.signal?.aborted === true;
      if (!aborted) this.#add("received", { label: `no answer: ${String(error)}`, failed: true, headers: [] });
      throw error;
    }
  };

  clear(): void {
    this.entries.set([]);
  }

  newConnection(): void {
    this.#methods = new Map();
  }

  async #received(response: Response, done: () => void): Promise<Response> {
    const status = `${response.status} ${response.statusText}`.trim();
    const http = { http: `HTTP ${status}`, headers: meaningful(response.headers) };
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith("text/event-stream") && response.body) {
      this.#add("received", { label: "a stream begins", failed: !response.ok, ...http });
      const watched = response.body
        .pipeThrough(
          watchEvents(({ id, data }) => {
            const body = parsed(data);
            const headers = id === undefined ? [] : [["event id", id] as const];
            this.#add("received", { ...this.#describe(body, "event"), headers, body });
          }),
        )
        .pipeThrough(new TransformStream({ flush: done }));
      return new Response(watched, response);
    }
    done();
    const text = await response.clone().text();
    const body = text === "" ? undefined : parsed(text);
    const described = this.#describe(body, status);
    this.#add("received", { ...described, failed: described.failed || !response.ok, ...http, body });
    return response;
  }

  #add(direction: Entry["direction"], entry: Omit<Entry, "number" | "at" | "direction">): void {
    const number = ++this.#count;
    const kept = this.entries.value.slice(-(SHOWN_MESSAGES - 1));
    this.entries.set([...kept, { number, at: new Date(), direction, ...entry }]);
  }

  #describe(body: unknown, otherwise: string): { label: string; failed: boolean } {
    if (typeof body !== "object" || body === null) return { label: otherwise, failed: false };
    const { id, method, error, result } = body as { id?: unknown; method?: unknown; error?: unknown; result?: unknown };
    if (typeof method === "string") {
      if (id !== undefined) this.#methods.set(JSON.stringify(id), method);
      return { label: method, failed: false };
    }
    const asked = id === undefined ? undefined : this.#methods.get(JSON.stringify(id));
    const of = asked === undefined ? "" : ` of ${asked}`;
    if (error !== undefined) return { label: `error${of}`, failed: true };
    if (result !== undefined) return { label: `result${of}`, failed: false };
    return { label: otherwise, failed: false };
  }
}

const MEANINGFUL = /^(accept|content-type|last-event-id|mcp-.*|www-authenticate|retry-after|allow)$/;

function meaningful(headers: Headers): (readonly [string, string])[] {
  return [...headers].filter(([name]) => MEANINGFUL.test(name));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Watches a stream of events as it passes through, and reports each event as soon as it is complete. */
function watchEvents(onEvent: (event: EventSourceMessage) => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const parser = createParser({ onEvent: (event) => event.data !== "" && onEvent(event) });
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      parser.feed(decoder.decode(chunk, { stream: true }));
    },
  });
}
