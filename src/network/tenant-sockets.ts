import { clock } from "../lib/clock.ts";
import type { SocketLimits, SocketUse } from "./relay-wire.ts";

/** The connections of one tenant's guests together: what they use, and how fast they may carry it. */
export class TenantSockets {
  readonly #bytesPerSecond: number;
  #open = 0;
  #opened = 0;
  #refused = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #closedMs = 0;
  /** The sum of the times at which the open connections began. */
  #beganSum = 0;
  #leftBytes: number;
  #countedAt = clock.now();

  constructor({ socketBytesPerSecondPerTenant }: Pick<SocketLimits, "socketBytesPerSecondPerTenant">) {
    this.#bytesPerSecond = socketBytesPerSecondPerTenant;
    this.#leftBytes = socketBytesPerSecondPerTenant * AT_ONCE_S;
  }

  /** Connections that are open or being opened. */
  get open(): number {
    return this.#open;
  }

  /** Counts one more connection; returns the function that counts its end, for one call. */
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

  /** Counts bytes from a guest; returns for how many milliseconds to read no more. */
  send(bytes: number): number {
    this.#sentBytes += bytes;
    return this.#spend(bytes);
  }

  /** Likewise, bytes to a guest. */
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
    const most = this.#bytesPerSecond * AT_ONCE_S;
    this.#leftBytes = Math.min(most, this.#leftBytes + earned) - Math.max(bytes, PIECE_BYTES);
    this.#countedAt = now;
    const debtMs = -this.#leftBytes / perMs;
    return debtMs < REST_MS ? 0 : debtMs;
  }
}

/** A calm tenant may carry at once as much as it otherwise may in this time: a few milliseconds of the relay's. */
const AT_ONCE_S = 0.1;
/** A smaller piece counts as one of this size: that it is a piece costs the relay most of what it costs. */
const PIECE_BYTES = 2 * 1024;
/** A shorter rest is taken together with later ones: to stop and start reading costs more than a small piece. */
const REST_MS = 10;
