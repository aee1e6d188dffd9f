import { nextTurn } from "../lib/turns.ts";

/** In one turn of the event loop: what the client makes of so much takes a few milliseconds. */
const TURN_EVENTS = 16;
const TURN_BYTES = 64 * 1024;
const SECOND_MS = 1000;

/**
 * How fast a server at an address is read, all streams of its connection together. Whoever hands on what it says takes a
 * place for it first, and reads no more until there is one: the client itself would go on for as long as anything comes,
 * and nothing else would have a turn.
 */
export class Inflow {
  readonly #eventsPerSecond: number;
  #events = 0;
  #secondBegan = -SECOND_MS;
  #turnEvents = 0;
  #turnBytes = 0;
  #turn: Promise<void> | undefined;

  constructor(eventsPerSecond: number) {
    this.#eventsPerSecond = eventsPerSecond;
  }

  async take(events: number, bytes: number): Promise<void> {
    while (this.#turnEvents >= TURN_EVENTS || this.#turnBytes >= TURN_BYTES) await (this.#turn ??= this.#nextTurn());
    this.#turnEvents += events;
    this.#turnBytes += bytes;
    this.count(events);
    while (this.#events > this.#eventsPerSecond) await this.#nextSecond();
  }

  /** Counts events that came already, or what costs as much as so many. */
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
