import type { Agent } from "undici";
import type { Limits } from "../limits/limits.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { ReadingTime } from "../lib/reading-time.ts";
import type { AllowedHost } from "./allow-list.ts";
import { openAgent, type Resolve } from "./agent.ts";
import { Exchange, headOf, type ExchangeLimits, type Wanted } from "./exchange.ts";
import { listRules, type NetworkRules } from "./rules.ts";

/**
 * The network of one server's code: fetches for it, in steps, only what its entry allows. It owns the number, age and
 * size of open fetches. It knows no process and no wire.
 */
export interface FetchLimits extends ExchangeLimits, Pick<Limits, "fetchesPerCall" | "openFetches"> {}

/** The call that needs the fetch: whatever it leaves open ends with it. */
export interface FetchingCall {
  onOver(close: () => void): void;
}

export type FetchStep = "fetch" | "fetchWrite" | "fetchRead" | "fetchAbort";

interface OpenedByCall {
  readonly exchanges: Map<number, Exchange>;
  count: number;
  over: boolean;
}

export class Fetches {
  readonly #limits: FetchLimits;
  readonly #rules: NetworkRules;
  readonly #agent: Agent;
  readonly #calls = new WeakMap<FetchingCall, OpenedByCall>();
  #open = 0;

  constructor(
    allowed: readonly AllowedHost[],
    limits: FetchLimits,
    options: { privateToo: boolean; resolve?: Resolve },
  ) {
    this.#limits = limits;
    this.#rules = listRules(allowed, options);
    const { resolve } = options;
    this.#agent = openAgent({
      rules: this.#rules,
      connections: limits.openFetches,
      readingTime: new ReadingTime(),
      ...(resolve && { resolve }),
    });
  }

  /**
   * - `fetch`: `{id, url, method, headers: [name, value][], redirect, base64?, length?, parts?}` → `{status, statusText,
   *   url, redirected, headers, hasBody}`. With `parts` the body comes by `fetchWrite`, in `length` bytes if it is known.
   * - `fetchWrite`: `{id, base64?}` → null, when there is room for more; without `base64` the body ends.
   * - `fetchRead`: `{id}` → `{base64}`, or null at the end of the answer's body.
   * - `fetchAbort`: `{id}` → null.
   */
  async request(step: FetchStep, params: JsonObject, call: FetchingCall): Promise<Json> {
    const id = numberIn(params, "id");
    const opened = this.#openedBy(call);
    if (step === "fetch") return this.#begin(id, readWanted(params), opened);
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

  async #begin(id: number, wanted: Wanted, opened: OpenedByCall): Promise<Json> {
    const { fetchesPerCall, openFetches } = this.#limits;
    if (opened.over) throw new Error("its call is over");
    if (opened.exchanges.has(id)) throw new Error("there is a fetch of this number already");
    if (++opened.count > fetchesPerCall) {
      throw new Error(`one call may fetch ${fetchesPerCall} times, which is the limit fetchesPerCall`);
    }
    if (this.#open >= openFetches) {
      throw new Error(
        `${openFetches} fetches of this server are open, which is the limit openFetches; read or cancel them`,
      );
    }
    const exchange = new Exchange(wanted, this.#rules, this.#limits);
    this.#open++;
    opened.exchanges.set(id, exchange);
    try {
      const head = await exchange.open(this.#agent);
      if (!head.hasBody) this.#end(id, opened);
      return headOf(head);
    } catch (error) {
      this.#end(id, opened);
      throw error;
    }
  }

  #end(id: number, { exchanges }: OpenedByCall): void {
    const exchange = exchanges.get(id);
    if (!exchange) return;
    exchanges.delete(id);
    this.#open--;
    exchange.close();
  }

  #openedBy(call: FetchingCall): OpenedByCall {
    const known = this.#calls.get(call);
    if (known) return known;
    const opened: OpenedByCall = { exchanges: new Map(), count: 0, over: false };
    this.#calls.set(call, opened);
    call.onOver(() => {
      opened.over = true;
      for (const id of opened.exchanges.keys()) this.#end(id, opened);
    });
    return opened;
  }
}

const REDIRECTS: readonly unknown[] = ["follow", "manual", "error"] satisfies Wanted["redirect"][];

function readWanted(params: JsonObject): Wanted {
  const { url, method, headers, redirect = "follow", length, parts } = params;
  if (typeof url !== "string" || typeof method !== "string") throw new TypeError('"url" and "method" must be texts');
  if (!REDIRECTS.includes(redirect)) throw new TypeError('"redirect" is "follow", "manual" or "error"');
  const isHeader = (pair: Json): pair is [string, string] =>
    Array.isArray(pair) && pair.length === 2 && pair.every((text) => typeof text === "string");
  if (!Array.isArray(headers) || !headers.every(isHeader)) throw new TypeError('"headers" must be pairs of texts');
  const known = length === undefined ? undefined : numberIn(params, "length");
  const body = parts === true ? { length: known } : bytesIn(params);
  return { url, method, headers, redirect: redirect as Wanted["redirect"], body };
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
  if (typeof base64 !== "string") throw new TypeError('"base64" must be a text');
  return Buffer.from(base64, "base64");
}
