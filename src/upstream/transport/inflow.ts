import { yieldToCalls } from "../../lib/event-loop.ts";
import { fixed } from "../../limits/fixed.ts";

/** Above this rate, reading from an upstream pauses. */
export const inflowBounds = fixed({ upstreamNotificationsPerSecond: 5000 });

/** Per turn of the event loop: the client handles this much in a few milliseconds. */
const TURN_EVENTS = 16;
const TURN_BYTES = 64 * 1024;
const SECOND_MS = 1000;

/**
 * Limits the rate at which a remote server is read, over all streams of its connection. A reader must take capacity
 * before it passes data on, and waits until there is some: otherwise reading would go on for as long as data arrives,
 * and block the event loop.
 */
export class Inflow {
  readonly #eventsPerSecond: number;
  #events = 0;
  #secondStart = -SECOND_MS;
  #turnEvents = 0;
  #turnBytes = 0;
  #turn: Promise<void> | undefined;

  constructor(eventsPerSecond: number = inflowBounds.upstreamNotificationsPerSecond) {
    this.#eventsPerSecond = eventsPerSecond;
  }

  async take(events: number, bytes: number): Promise<void> {
    while (this.#turnEvents >= TURN_EVENTS || this.#turnBytes >= TURN_BYTES) await (this.#turn ??= this.#nextTurn());
    this.#turnEvents += events;
    this.#turnBytes += bytes;
    this.count(events);
    while (this.#events > this.#eventsPerSecond) await this.#nextSecond();
  }

  /** Counts events that have already arrived, or the same amount of other work. */
  count(events: number): void {
    const now = performance.now();
    if (now - this.#secondStart >= SECOND_MS) {
      this.#secondStart = now;
      this.#events = 0;
    }
    this.#events += events;
  }

  async #nextTurn(): Promise<void> {
    await yieldToCalls();
    this.#turn = undefined;
    this.#turnEvents = this.#turnBytes = 0;
  }

  async #nextSecond(): Promise<void> {
    const left = this.#secondStart + SECOND_MS - performance.now();
    await new Promise((resolve) => setTimeout(resolve, left).unref());
    this.count(0);
  }
}
