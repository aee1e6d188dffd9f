import { BerthError } from "../lib/errors.ts";
import type { GuestOutcome } from "../executor/executor.ts";
import { isObject, type Json } from "../lib/json.ts";
import { isContentBlock, text } from "./content.ts";

/** What a block takes in memory besides its text. */
const BLOCK_UNITS = 32;

/**
 * What a stream yields, for a caller that takes no stream: a generator that returns nothing has said all that it has
 * to say in its yields, so these are its result then.
 */
export class Collected {
  readonly #outputBytes: number;
  readonly #blocks: Json[] = [];
  #units = 0;

  constructor(outputBytes: number) {
    this.#outputBytes = outputBytes;
  }

  /** Throws when there is more than a result may hold, which ends the call. */
  readonly add = (event: Json): void => {
    // A figure tells how far the work is; it is no part of what comes of it.
    if (isObject(event) && typeof event["progress"] === "number") return;
    const block = isContentBlock(event) ? event : text(typeof event === "string" ? event : JSON.stringify(event));
    this.#units += JSON.stringify(block).length + BLOCK_UNITS;
    if (this.#units > this.#outputBytes) throw new BerthError("guest_failed", "its stream is too long");
    this.#blocks.push(block);
  };

  /** The outcome of a call whose events were added here. */
  outcomeOf(outcome: GuestOutcome): GuestOutcome {
    if (this.#units > this.#outputBytes) {
      const message = `what it yields is larger than the limit of ${this.#outputBytes} bytes; a client that takes a stream gets it all`;
      return { ok: false, error: { reason: "output", message, retriable: false } };
    }
    if (!outcome.ok || outcome.value.kind !== "none" || this.#blocks.length === 0) return outcome;
    return { ok: true, value: { kind: "json", value: this.#blocks } };
  }
}
