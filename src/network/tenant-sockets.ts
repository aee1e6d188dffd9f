import { clock } from "../lib/clock.ts";
import type { SocketLimits, SocketUse } from "./relay-wire.ts";

/** All connections of one tenant's guests: their usage, and the limit of their rate. */
export class TenantSockets {
  readonly #bytesPerSecond: number;
  #open = 0;
  #opened = 0;
  #refused = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #closedMs = 0;
  /** The sum of the start times of the open connections. */
  #beganSum = 0;
  #leftBytes: number;
  #countedAt = clock.now();

  constructor({ socketBytesPerSecondPerTenant }: Pick<SocketLimits, "socketBytesPerSecondPerTenant">) {
    this.#bytesPerSecond = socketBytesPerSecondPerTenant;
    this.#leftBytes = socketBytesPerSecondPerTenant * BURST_S;
  }

  get open(): number {
    return this.#open;
  }

  /** Counts one more connection; returns a function to call once, at its end. */
  enter(): () => void {
    const beganAt = clock.now();
    this.#open++;
    this.#beganSum += beganAt;
    return () => {
      this.#open--;
      this.#beganSum -= beganAt;
      this.#closedMs += clock.now() - beganAt;
    };
  }

  opened(): void {
    this.#opened++;
  }

  refused(): void {
    this.#refused++;
  }

  /** Counts bytes from a guest; returns for how many milliseconds to pause reading. */
  send(bytes: number): number {
    this.#sentBytes += bytes;
    return this.#spend(bytes);
  }

  receive(bytes: number): number {
    this.#receivedBytes += bytes;
    return this.#spend(bytes);
  }

  use(): SocketUse {
    return {
      open: this.#open,
      opened: this.#opened,
      refused: this.#refused,
      sentBytes: this.#sentBytes,
      receivedBytes: this.#receivedBytes,
      openMs: Math.round(this.#closedMs + this.#open * clock.now() - this.#beganSum),
    };
  }

  #spend(bytes: number): number {
    const perMs = this.#bytesPerSecond / 1_000;
    if (perMs === 0) return 0;
    const now = clock.now();
    const earned = (now - this.#countedAt) * perMs;
    const burst = this.#bytesPerSecond * BURST_S;
    this.#leftBytes = Math.min(burst, this.#leftBytes + earned) - Math.max(bytes, PIECE_BYTES);
    this.#countedAt = now;
    const debtMs = -this.#leftBytes / perMs;
    return debtMs < MIN_PAUSE_MS ? 0 : debtMs;
  }
}

/** The burst of an idle tenant, as time at its full rate: it costs the relay a few milliseconds. */
const BURST_S = 0.1;
/** Smaller pieces count as this many bytes, since most of their cost is per piece. */
const PIECE_BYTES = 2 * 1024;
/** Shorter pauses are combined with later ones: to stop and resume reading costs more than a small piece. */
const MIN_PAUSE_MS = 10;
