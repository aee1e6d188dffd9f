import { nextTurn } from "../../lib/event-loop.ts";
import { fixed } from "../../limits/fixed.ts";

/** Above this rate, reading from an upstream pauses. */
export const inflowBounds = fixed({ upstreamNotificationsPerSecond: 5000 });

/** In one turn of the event loop: the client handles this much in a few milliseconds. */
const TURN_EVENTS = 16;
const TURN_BYTES = 64 * 1024;
const SECOND_MS = 1000;

/**
 * Paces the reading of a remote server, over all streams of its connection. A reader must take a place before it hands
 * data on, and waits until there is one: otherwise the client would go on for as long as data arrives, and nothing else
 * would get a turn.
 */
export class Inflow {
  readonly #eventsPerSecond: number;
  #events = 0;
  #secondBegan = -SECOND_MS;
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
    if (now - this.#secondBegan >= SECOND_MS) {
      this.#secondBegan = now;
      this.#events = 0;
    }
    this.#events += events;
  }

  async #nextTurn(): Promise<void> {
    await nextTurn();
    this.#turn = undefined;
    this.#turnEvents = this.#turnBytes = 0;
  }

  async #nextSecond(): Promise<void> {
    const left = this.#secondBegan + SECOND_MS - performance.now();
    await new Promise((resolve) => setTimeout(resolve, left).unref());
    this.count(0);
  }
}
