import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { clock, type Timer } from "../lib/clock.ts";
import { tryParseObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import type { Lease, NodeMessage, NodeStore } from "../lib/node-store.ts";
import { hasEnded } from "../lib/process-identity.ts";
import { settlesWithin, LATE_MS, within } from "../lib/within.ts";
import type { Limits } from "../limits/limits.ts";

/** The heartbeat interval. It also bounds how soon other nodes notice that this one is gone. */
const HEARTBEAT_MS = 1_000;
/** Broadcast messages are batched for this long. */
const BATCH_MS = 25;
/** The retry interval for messages that the store did not accept, and how many are retained for it. */
const RETRY_MS = 500;
const UNSENT_MAX = 10_000;
/** A node that has not answered the greeting of a new one by then is stopped, or about to expire. */
const GREETING_TIMEOUT_MS = 3_000;
/** A node that has not acknowledged messages by then no longer delays the sender's clients. */
const ACKNOWLEDGE_TIMEOUT_MS = 1_000;

/**
 * This process as a node among all processes that serve from the same store: which nodes live, the messages between
 * them, and the leases of tasks that one node does alone. It owns this node's heartbeat and mailbox, and knows nothing
 * of what messages mean. Only nodes can write to the store, so messages are trusted.
 */
export class Cluster {
  /** Has no dots or slashes, so that other ids can contain it to name the node that issued them. */
  readonly id = randomBytes(9).toString("base64url");
  readonly #options: ClusterOptions;
  readonly #facts: Record<string, Json>;
  readonly #topics = new Map<string, MessageHandler>();
  readonly #onGone = new Set<(node: string) => void>();
  readonly #onLapse = new Set<() => void>();
  readonly #outbox = new Map<string, NodeMessage>();
  /** The nodes that have yet to answer a greeting, by the number of the greeting. */
  readonly #greeted = new Map<number, (node: string) => void>();
  #otherNodes: ReadonlyMap<string, JsonObject> = new Map();
  #stopListening: (() => void) | undefined;
  #heartbeat: Promise<void> = Promise.resolve();
  #receiving: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #sendTimer: NodeJS.Timeout | undefined;
  #greetingCount = 0;
  #greeting: Promise<void> | undefined;
  #lastBeatAt = -Infinity;
  #isStalled = false;
  #isSendingFailing = false;
  #reachableSince = -Infinity;
  /** Until then, a node that lived before an outage of the store counts as living. */
  #graceUntil = -Infinity;
  #isFailing = false;

  constructor(options: ClusterOptions) {
    this.#options = options;
    this.#facts = options.process === undefined ? {} : { process: options.process };
  }

  /**
   * Joins the cluster. Resolves once the other nodes know this one, so that it receives everything they broadcast from
   * then on. Call it once all handlers are registered.
   */
  async join(): Promise<void> {
    this.on(HELLO, ({ from, number }) => void this.#answerGreeting(from, number));
    this.on(GREETED, ({ by, number }) => this.#greeted.get(number as number)?.(by as string));
    this.#stopListening = this.#options.nodes.onLetter(this.id, () => this.#receive());
    this.#scheduleHeartbeat();
    await this.#greetAll(GREETING_TIMEOUT_MS);
  }

  /** The other nodes, with the facts that each has published. */
  get others(): ReadonlyMap<string, JsonObject> {
    return this.#otherNodes;
  }

  /** Publishes a fact about this node. Resolves when the other nodes have received it. */
  async say(name: string, fact: Json): Promise<void> {
    if (JSON.stringify(this.#facts[name]) === JSON.stringify(fact)) return;
    this.#facts[name] = fact;
    await this.heard();
  }

  /** Calls `handler` for each message on a topic. Messages of one node arrive in order. */
  on(topic: string, handler: MessageHandler): void {
    this.#topics.set(topic, handler);
  }

  /** Calls `listener` for each node that has ended or expired. */
  onGone(listener: (node: string) => void): void {
    this.#onGone.add(listener);
  }

  /** Calls `listener` when other nodes may have taken this node's leases, because its heartbeat is or was overdue. */
  onLapse(listener: () => void): void {
    this.#onLapse.add(listener);
  }

  /** Sends a message to all other nodes after a short delay; duplicates are merged. Free without other nodes. */
  tell(topic: string, body: JsonObject): void {
    if (this.#otherNodes.size === 0) return;
    const text = JSON.stringify([topic, body]);
    this.#outbox.set(text, { to: undefined, text });
    this.#sendTimer ??= setTimeout(() => void this.#sendOutbox(), BATCH_MS).unref();
  }

  /**
   * Resolves when all other nodes have processed what this node has published and broadcast until now, and it has
   * received their facts. A node that does not answer in time is ignored.
   */
  heard(): Promise<void> {
    if (!this.#timer || this.#otherNodes.size === 0) return Promise.resolve();
    this.#greeting ??= sleep(BATCH_MS).then(() => {
      this.#greeting = undefined;
      return this.#greetAll(ACKNOWLEDGE_TIMEOUT_MS);
    });
    return this.#greeting;
  }

  /** False if the node is gone. Rejects with `store_failed`, or with `too_many_requests` if it is overloaded. */
  async send(to: string, topic: string, body: JsonObject): Promise<boolean> {
    const [boxes] = await this.#options.nodes.post(this.id, [{ to, text: JSON.stringify([topic, body]) }]);
    return boxes! > 0;
  }

  /**
   * True if a node has ended or its heartbeat is overdue. After an outage of the store, in which no heartbeat could be
   * stored, every node gets the full lease time again.
   */
  isGone(node: string): boolean {
    if (node === this.id || this.#otherNodes.has(node)) return false;
    return clock.now() - this.#reachableSince >= this.#options.limits.nodeLeaseMs;
  }

  /**
   * False if other nodes may consider this node gone, so it must not do what one node does alone. While a stalled store
   * keeps the only node waiting, no other node can take a lease either.
   */
  get isSure(): boolean {
    if (this.#isStalled && this.#otherNodes.size === 0) return true;
    return clock.now() - this.#lastBeatAt < this.#options.limits.nodeLeaseMs / 2;
  }

  /**
   * The same as `isSure`, after a heartbeat if one is due. A node without others does not wait for a stalled store.
   */
  async makeSure(): Promise<boolean> {
    if (this.isSure) return true;
    const beat = this.#beat();
    await (this.#otherNodes.size === 0 ? within(2 * LATE_MS, beat) : beat);
    return this.isSure;
  }

  /** Takes a lease unless another node holds it. This node holds it for as long as it lives. */
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
    await this.#sendOutbox();
    await Promise.all([this.#heartbeat, this.#receiving]);
    await this.#options.nodes.leave(this.id).catch((error: unknown) => {
      this.#options.log.warn({ err: error }, "the other nodes could not be notified that this one ends");
    });
  }

  #scheduleHeartbeat(): void {
    this.#timer = clock
      .after(HEARTBEAT_MS, () => {
        this.#scheduleHeartbeat();
        this.#beatIfDue();
      })
      .unref();
  }

  /** A single node should not wake the disk each second. */
  #beatIfDue(): void {
    const isAlone = this.#otherNodes.size === 0;
    const isFresh = clock.now() - this.#lastBeatAt < this.#options.limits.nodeLeaseMs / 3;
    if (!this.#isStalled && (!isAlone || !isFresh)) void this.#beat();
  }

  /** Greets all other nodes. Resolves when each has answered, or after `ms`. */
  async #greetAll(ms: number): Promise<void> {
    if (!this.#timer) return;
    await this.#beat();
    await this.#removeEnded();
    const unanswered = new Set(this.#otherNodes.keys());
    if (unanswered.size === 0) return;
    const number = ++this.#greetingCount;
    const allAnswered = new Promise<void>((resolve) => {
      this.#greeted.set(number, (node) => unanswered.delete(node) && unanswered.size === 0 && resolve());
    });
    this.tell(HELLO, { from: this.id, number });
    await this.#sendOutbox();
    await within(ms, allAnswered);
    this.#greeted.delete(number);
    // Fetch the facts that they have published until then.
    await this.#beat();
  }

  /** A killed node does not answer. Its row and its leases are free as soon as its process has ended. */
  async #removeEnded(): Promise<void> {
    const ended = [...this.#otherNodes].filter(([, { process }]) => hasEnded(process));
    // If one cannot be removed now, it is treated as living.
    await Promise.allSettled(ended.map(([id]) => this.#options.nodes.leave(id)));
    if (ended.length > 0) await this.#beat();
  }

  /**
   * Messages arrive in order, so everything sent before the greeting has been processed. A greeting without a number
   * only asks for a heartbeat.
   */
  async #answerGreeting(from: Json | undefined, number: Json | undefined): Promise<void> {
    await this.#beat();
    if (typeof from !== "string" || typeof number !== "number") return;
    await this.send(from, GREETED, { by: this.id, number }).catch((error: unknown) => {
      this.#options.log.warn({ err: error }, "another node's greeting could not be answered");
    });
  }

  /** Heartbeats are serialized. */
  #beat(): Promise<void> {
    this.#heartbeat = this.#heartbeat.then(() => this.#beatNow());
    return this.#heartbeat;
  }

  async #beatNow(): Promise<void> {
    const { nodes, limits, log } = this.#options;
    const began = clock.now();
    try {
      const beat = nodes.beat({ id: this.id, facts: JSON.stringify(this.#facts) }, limits.nodeLeaseMs);
      this.#isStalled = !(await settlesWithin(LATE_MS, beat));
      const { living, wasGone } = await beat;
      const isFirst = this.#lastBeatAt === -Infinity;
      const answered = clock.now();
      // While the store kept this node waiting, it may have kept other nodes waiting as well.
      if (this.#isFailing || answered - this.#lastBeatAt > this.#outageMs) {
        this.#reachableSince = answered;
        if (!isFirst) this.#graceUntil = answered + limits.nodeLeaseMs;
      }
      this.#lastBeatAt = began;
      this.#isFailing = false;
      const before = this.#otherNodes;
      this.#otherNodes = new Map([
        ...(began < this.#graceUntil ? before : []),
        ...living.filter(({ id }) => id !== this.id).map(({ id, facts }) => [id, tryParseObject(facts) ?? {}] as const),
      ]);
      for (const id of before.keys()) if (!this.#otherNodes.has(id)) this.#reportGone(id);
      if (!wasGone || isFirst) return;
      // A node that believes to be the only one polls rarely.
      this.tell(HELLO, {});
      for (const listener of this.#onLapse) listener();
    } catch (error) {
      if (!this.#isFailing) log.warn({ err: error }, "this node's heartbeat could not be stored");
      this.#isFailing = true;
      if (clock.now() - this.#lastBeatAt >= limits.nodeLeaseMs) for (const listener of this.#onLapse) listener();
    } finally {
      this.#isStalled = false;
    }
  }

  /** After so long without a heartbeat of this node, other nodes may not have been able to store one either. */
  get #outageMs(): number {
    return Math.max(2.5 * HEARTBEAT_MS, this.#options.limits.nodeLeaseMs - 2 * HEARTBEAT_MS);
  }

  #reportGone(node: string): void {
    this.#options.log.info({ node }, "a node has gone");
    for (const answer of this.#greeted.values()) answer(node);
    for (const listener of this.#onGone) listener(node);
  }

  async #sendOutbox(): Promise<void> {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    const messages = [...this.#outbox.values()];
    this.#outbox.clear();
    if (messages.length === 0) return;
    try {
      await this.#options.nodes.post(this.id, messages);
      this.#isSendingFailing = false;
    } catch (error) {
      if (!this.#isSendingFailing)
        this.#options.log.warn({ err: error, letters: messages.length }, "messages to other nodes could not be sent");
      this.#isSendingFailing = true;
      this.#requeue(messages);
    }
  }

  /** Retries messages that the store did not accept, unless there are too many. */
  #requeue(messages: readonly NodeMessage[]): void {
    if (!this.#timer || messages.length + this.#outbox.size > UNSENT_MAX) return;
    const queued = [...this.#outbox.values()];
    this.#outbox.clear();
    for (const message of [...messages, ...queued]) this.#outbox.set(message.text, message);
    this.#sendTimer ??= setTimeout(() => void this.#sendOutbox(), RETRY_MS).unref();
  }

  #receive(): void {
    this.#receiving = this.#receiving.then(() => this.#receiveNow());
  }

  async #receiveNow(): Promise<void> {
    try {
      for (let messages; (messages = await this.#options.nodes.take(this.id)).length > 0;)
        for (const message of messages) await this.#dispatch(message);
    } catch (error) {
      this.#options.log.warn({ err: error }, "messages of other nodes could not be read");
    }
  }

  async #dispatch(text: string): Promise<void> {
    const [topic, body] = JSON.parse(text) as [string, JsonObject];
    // A node of another version may use topics that this one does not know.
    const handler = this.#topics.get(topic);
    if (!handler) return;
    try {
      await handler(body);
    } catch (error) {
      this.#options.log.error({ err: error, topic }, "a message of another node could not be processed");
    }
  }
}

/** A slow handler delays all other messages. */
export type MessageHandler = (body: JsonObject) => void | Promise<void>;

export interface ClusterOptions {
  readonly nodes: NodeStore;
  /** Identifies this process, so that other nodes on the same machine notice its end. */
  readonly process?: string | undefined;
  readonly limits: Pick<Limits, "nodeLeaseMs">;
  readonly log: Log;
}

const HELLO = "hello";
const GREETED = "greeted";
