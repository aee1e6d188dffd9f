import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { clock, type Timer } from "../lib/clock.ts";
import { soundObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import type { Lease, Letter, NodeStore } from "../lib/node-store.ts";
import { hasEnded } from "../lib/process-identity.ts";
import { endsWithin, LATE_MS, within } from "../lib/within.ts";
import type { Limits } from "../limits/limits.ts";

/** How often a node gives a sign of life; where others live, whose end is noticed as soon. */
const BEAT_MS = 1_000;
/** News that waits so long for more goes out in one write. */
const TOLD_MS = 25;
/** How soon news is told again that the store did not take, and how much of it is kept for that. */
const TELL_AGAIN_MS = 500;
const UNTOLD_MAX = 10_000;
/** A node that has not greeted a new one by then is stopped, or about to count as gone. */
const GREETED_MS = 3_000;
/** A node that has not heard by then what another has told keeps that one's clients waiting no longer. */
const HEARD_MS = 1_000;

/**
 * This process among those that serve from the same store, its nodes: who else lives, what they tell each other, and what
 * one of them alone does. It owns this node's sign of life and its box of letters, and knows nothing of what they mean.
 * Nobody but nodes can write to the store, so letters are believed.
 */
export class Cluster {
  /** Has neither dots nor slashes, so that ids can name the node that issued them. */
  readonly id = randomBytes(9).toString("base64url");
  readonly #options: ClusterOptions;
  readonly #facts: Record<string, Json>;
  readonly #topics = new Map<string, LetterHandler>();
  readonly #onGone = new Set<(node: string) => void>();
  readonly #onLapse = new Set<() => void>();
  readonly #news = new Map<string, Letter>();
  /** Whom this node waits for, by the number of its greeting. */
  readonly #awaited = new Map<number, (node: string) => void>();
  #others: ReadonlyMap<string, JsonObject> = new Map();
  #stopListening: (() => void) | undefined;
  #beating: Promise<void> = Promise.resolve();
  #taking: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #telling: NodeJS.Timeout | undefined;
  #greetings = 0;
  #asking: Promise<void> | undefined;
  #beatAt = -Infinity;
  #isStalled = false;
  #isTellingFailing = false;
  #reachableSince = -Infinity;
  /** Until then a node counts as living that was there before an outage of the store. */
  #graceUntil = -Infinity;
  #isFailing = false;

  constructor(options: ClusterOptions) {
    this.#options = options;
    this.#facts = options.process === undefined ? {} : { process: options.process };
  }

  /**
   * Joins the others, and resolves when they know it: nothing that they tell from then on is lost. Call it once
   * everything that letters are for is there.
   */
  async join(): Promise<void> {
    this.on(HELLO, ({ from, number }) => void this.#greet(from, number));
    this.on(GREETED, ({ by, number }) => this.#awaited.get(number as number)?.(by as string));
    this.#stopListening = this.#options.nodes.onLetter(this.id, () => this.#take());
    this.#beatLater();
    await this.#ask(GREETED_MS);
  }

  /** Other nodes, with what they say of themselves. */
  get others(): ReadonlyMap<string, JsonObject> {
    return this.#others;
  }

  /** Says something of this node to all others. Resolves as `heard` does. */
  async say(name: string, fact: Json): Promise<void> {
    if (JSON.stringify(this.#facts[name]) === JSON.stringify(fact)) return;
    this.#facts[name] = fact;
    await this.heard();
  }

  /** Calls `handler` for each letter about a topic, in the order in which one node has posted them. */
  on(topic: string, handler: LetterHandler): void {
    this.#topics.set(topic, handler);
  }

  /** Calls `listener` for each node that has ended or counts as gone. */
  onGone(listener: (node: string) => void): void {
    this.#onGone.add(listener);
  }

  /**
   * Calls `listener` when others may hold this node's leases by now: it was silent for as long as it may be, and is again
   * or still.
   */
  onLapse(listener: () => void): void {
    this.#onLapse.add(listener);
  }

  /** Tells all other nodes, soon; the same thing once. Where there are none, it costs nothing. */
  tell(topic: string, body: JsonObject): void {
    if (this.#others.size === 0) return;
    const text = JSON.stringify([topic, body]);
    this.#news.set(text, { to: undefined, text });
    this.#telling ??= setTimeout(() => void this.#tell(), TOLD_MS).unref();
  }

  /**
   * Resolves when all others have dealt with what this node has said and told until now, and it knows what they have said
   * of themselves. One of them that does not answer in time is not waited for.
   */
  heard(): Promise<void> {
    if (!this.#timer || this.#others.size === 0) return Promise.resolve();
    this.#asking ??= sleep(TOLD_MS).then(() => {
      this.#asking = undefined;
      return this.#ask(HEARD_MS);
    });
    return this.#asking;
  }

  /** False when the node is gone. Rejects with `store_failed`, or with `too_many_requests` where it does not keep up. */
  async send(to: string, topic: string, body: JsonObject): Promise<boolean> {
    const [boxes] = await this.#options.nodes.post(this.id, [{ to, text: JSON.stringify([topic, body]) }]);
    return boxes! > 0;
  }

  /**
   * True when a node has ended, or was silent for as long as it may be. After an outage of the store, in which nobody
   * could give a sign of life, all are given that time again.
   */
  isGone(node: string): boolean {
    if (node === this.id || this.#others.has(node)) return false;
    return clock.now() - this.#reachableSince >= this.#options.limits.nodeLeaseMs;
  }

  /**
   * False when the others may take this node for gone: what one node alone may do is then no longer its to do. While a
   * stalled store keeps a node without others waiting, no other node can take a lease there either.
   */
  get isSure(): boolean {
    if (this.#isStalled && this.#others.size === 0) return true;
    return clock.now() - this.#beatAt < this.#options.limits.nodeLeaseMs / 2;
  }

  /** Resolves with `isSure`, after a heartbeat where one is due. A node without others does not wait for a stalled store. */
  async makeSure(): Promise<boolean> {
    if (this.isSure) return true;
    const beat = this.#beat();
    await (this.#others.size === 0 ? within(2 * LATE_MS, beat) : beat);
    return this.isSure;
  }

  /** Takes what one node alone does, unless another has it; it keeps it as long as it lives. */
  lease(name: string): Promise<Lease> {
    return this.#options.nodes.lease(name, this.id);
  }

  leased(name: string): Promise<Lease | undefined> {
    return this.#options.nodes.leased(name);
  }

  endLease(name: string): Promise<void> {
    return this.#options.nodes.endLease(name, this.id);
  }

  async close(): Promise<void> {
    this.#timer?.clear();
    this.#timer = undefined;
    this.#stopListening?.();
    if (!this.#stopListening) return;
    await this.#tell();
    await Promise.all([this.#beating, this.#taking]);
    await this.#options.nodes.leave(this.id).catch((error: unknown) => {
      this.#options.log.warn({ err: error }, "the other nodes could not be told that this one ends");
    });
  }

  #beatLater(): void {
    this.#timer = clock
      .after(BEAT_MS, () => {
        this.#beatLater();
        this.#beatIfDue();
      })
      .unref();
  }

  /** A node without others is not to wake the disk each second. */
  #beatIfDue(): void {
    const isAlone = this.#others.size === 0;
    const isFresh = clock.now() - this.#beatAt < this.#options.limits.nodeLeaseMs / 3;
    if (!this.#isStalled && (!isAlone || !isFresh)) void this.#beat();
  }

  /** Has all others look at this node, and resolves when each has said that it did, or after so long. */
  async #ask(ms: number): Promise<void> {
    if (!this.#timer) return;
    await this.#beat();
    await this.#removeEnded();
    const awaited = new Set(this.#others.keys());
    if (awaited.size === 0) return;
    const number = ++this.#greetings;
    const isHeard = new Promise<void>((resolve) => {
      this.#awaited.set(number, (node) => awaited.delete(node) && awaited.size === 0 && resolve());
    });
    this.tell(HELLO, { from: this.id, number });
    await this.#tell();
    await within(ms, isHeard);
    this.#awaited.delete(number);
    // What they have said of themselves until then is known here, too.
    await this.#beat();
  }

  /** A node that was killed does not answer. Its leases and its row are free as soon as its process has ended. */
  async #removeEnded(): Promise<void> {
    const ended = [...this.#others].filter(([, { process }]) => hasEnded(process));
    // One that cannot be removed now is waited for.
    await Promise.allSettled(ended.map(([id]) => this.#options.nodes.leave(id)));
    if (ended.length > 0) await this.#beat();
  }

  /** Letters come in order: what was told before is dealt with. Some say hello only to be looked at. */
  async #greet(from: Json | undefined, number: Json | undefined): Promise<void> {
    await this.#beat();
    if (typeof from !== "string" || typeof number !== "number") return;
    await this.send(from, GREETED, { by: this.id, number }).catch((error: unknown) => {
      this.#options.log.warn({ err: error }, "another node could not be told that it was heard");
    });
  }

  /** One at a time. */
  #beat(): Promise<void> {
    this.#beating = this.#beating.then(() => this.#beatNow());
    return this.#beating;
  }

  async #beatNow(): Promise<void> {
    const { nodes, limits, log } = this.#options;
    const began = clock.now();
    try {
      const beat = nodes.beat({ id: this.id, facts: JSON.stringify(this.#facts) }, limits.nodeLeaseMs);
      this.#isStalled = !(await endsWithin(LATE_MS, beat));
      const { living, wasGone } = await beat;
      const isFirst = this.#beatAt === -Infinity;
      const answered = clock.now();
      // While the store kept this node waiting, the others waited, too.
      if (this.#isFailing || answered - this.#beatAt > this.#outageMs) {
        this.#reachableSince = answered;
        if (!isFirst) this.#graceUntil = answered + limits.nodeLeaseMs;
      }
      this.#beatAt = began;
      this.#isFailing = false;
      const before = this.#others;
      this.#others = new Map([
        ...(began < this.#graceUntil ? before : []),
        ...living.filter(({ id }) => id !== this.id).map(({ id, facts }) => [id, soundObject(facts) ?? {}] as const),
      ]);
      for (const id of before.keys()) if (!this.#others.has(id)) this.#hearGone(id);
      if (!wasGone || isFirst) return;
      // One that took itself for alone looks seldom.
      this.tell(HELLO, {});
      for (const listener of this.#onLapse) listener();
    } catch (error) {
      if (!this.#isFailing) log.warn({ err: error }, "this node's sign of life could not be stored");
      this.#isFailing = true;
      if (clock.now() - this.#beatAt >= limits.nodeLeaseMs) for (const listener of this.#onLapse) listener();
    } finally {
      this.#isStalled = false;
    }
  }

  /** After so much time without a sign of life from here, others may not have been able to give one either. */
  get #outageMs(): number {
    return Math.max(2.5 * BEAT_MS, this.#options.limits.nodeLeaseMs - 2 * BEAT_MS);
  }

  #hearGone(node: string): void {
    this.#options.log.info({ node }, "a node has gone");
    for (const isHeard of this.#awaited.values()) isHeard(node);
    for (const listener of this.#onGone) listener(node);
  }

  async #tell(): Promise<void> {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    const letters = [...this.#news.values()];
    this.#news.clear();
    if (letters.length === 0) return;
    try {
      await this.#options.nodes.post(this.id, letters);
      this.#isTellingFailing = false;
    } catch (error) {
      if (!this.#isTellingFailing)
        this.#options.log.warn({ err: error, letters: letters.length }, "other nodes could not be told the news");
      this.#isTellingFailing = true;
      this.#tellAgain(letters);
    }
  }

  /** News that the store did not take is told once it does, as long as it is not too much. */
  #tellAgain(letters: readonly Letter[]): void {
    if (!this.#timer || letters.length + this.#news.size > UNTOLD_MAX) return;
    const later = [...this.#news.values()];
    this.#news.clear();
    for (const letter of [...letters, ...later]) this.#news.set(letter.text, letter);
    this.#telling ??= setTimeout(() => void this.#tell(), TELL_AGAIN_MS).unref();
  }

  #take(): void {
    this.#taking = this.#taking.then(() => this.#takeNow());
  }

  async #takeNow(): Promise<void> {
    try {
      for (let texts; (texts = await this.#options.nodes.take(this.id)).length > 0;)
        for (const text of texts) await this.#hear(text);
    } catch (error) {
      this.#options.log.warn({ err: error }, "letters of other nodes could not be read");
    }
  }

  async #hear(text: string): Promise<void> {
    const [topic, body] = JSON.parse(text) as [string, JsonObject];
    // A node of another version may tell what this one does not know.
    const handler = this.#topics.get(topic);
    if (!handler) return;
    try {
      await handler(body);
    } catch (error) {
      this.#options.log.error({ err: error, topic }, "a letter of another node could not be dealt with");
    }
  }
}

/** A handler that takes long delays all other letters. */
export type LetterHandler = (body: JsonObject) => void | Promise<void>;

export interface ClusterOptions {
  readonly nodes: NodeStore;
  /** The identity of this process, by which other nodes on the same machine notice its end. */
  readonly process?: string | undefined;
  readonly limits: Pick<Limits, "nodeLeaseMs">;
  readonly log: Log;
}

const HELLO = "hello";
const GREETED = "greeted";
