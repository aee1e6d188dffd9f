import { BerthError } from "../../lib/errors.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { isContentBlock, text } from "../../contract/content-block.ts";

/** Memory that a block takes besides its text. */
const BLOCK_UNITS = 32;

/**
 * Collects a stream's yields for a caller that takes no stream: when a generator returns nothing, its yields are the
 * result.
 */
export class Collected {
  readonly #outputBytes: number;
  readonly #blocks: Json[] = [];
  #units = 0;

  constructor(outputBytes: number) {
    this.#outputBytes = outputBytes;
  }

  /** Throws when the yields exceed what a result may hold, which ends the call. */
  readonly add = (event: Json): void => {
    // A progress figure is not part of the result.
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
