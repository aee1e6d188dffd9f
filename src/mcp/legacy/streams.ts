import { BerthError } from "../../lib/errors.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import { TenantCounts } from "../../lib/tenant-counts.ts";
import type { Limits } from "../../limits/limits.ts";
import type { RequestId } from "../json-rpc.ts";
import type { EventSink } from "../protocol.ts";
import type { Session } from "./session.ts";
import type { StoredStream, StreamStore } from "./stream-store.ts";
import { isToListen, streamBounds, streamId, Stream, type StreamOptions } from "./stream.ts";

/** Revisions with events without a message, and with reconnecting on the server's word (SEP-1699). */
const PRIMING: ReadonlySet<string> = new Set(["2025-11-25"]);

/** The memory that a stream takes besides its messages. */
export const STREAM_BYTES = 2 * 1024;

/** All streams of this process: how many each session has, and how much they keep for returning clients. */
export class Streams {
  readonly #limits: SessionStreamLimits;
  readonly #store: StreamStore;
  /**
   * Streams without a connection, by tenant, with the time at which they are forgotten; the first to go comes first.
   */
  readonly #resting = new Map<string, Map<Stream, { session: Session; until: number }>>();
  readonly #kept = new TenantCounts();
  /** Bytes that cannot be dropped: they wait for answers on open streams. Some are kept as well. */
  readonly #held = new TenantCounts();

  constructor(store: StreamStore, limits: SessionStreamLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** A POST's stream opens with its first message; a stream to listen to is opened by its caller. */
  create(session: Session, requests: readonly RequestId[] | undefined): Stream {
    return new Stream(streamId(requests), this.#optionsOf(session));
  }

  /** For requests on a transport that cannot resume streams: waiting bytes count all the same, until `letGo`. */
  holding({ tenant }: Session, sink: EventSink): { readonly events: EventSink; readonly letGo: () => void } {
    let held = 0;
    return {
      events: {
        send: (message, details) => sink.send(message, details),
        hold: (bytes) => {
          const full = this.#hold(tenant, bytes);
          if (!full) held += bytes;
          return full;
        },
      },
      letGo: () => this.#held.add(tenant, -held),
    };
  }

  /**
   * Continues a listening stream of another process. `position` is the last event that its client has seen, which the
   * store need not have. Throws `too_many_streams`.
   */
  adopt(session: Session, position: { stream: string; seq: number }, stored: StoredStream): Stream {
    const options = this.#optionsOf(session);
    const last = Math.max(stored.kept.last, position.seq);
    const stream = new Stream(position.stream, options, { ...stored.kept, last });
    if (options.mayOpen(stream)) {
      this.#store.adopt(stream, stored);
      this.#store.change(stream, session);
      return stream;
    }
    stream.clear();
    throw new BerthError("too_many_streams", `a session has at most ${streamBounds.streamsPerSession}`);
  }

  #optionsOf(session: Session): StreamOptions {
    return {
      primes: primes(session),
      streamConnectionMs: this.#limits.streamConnectionMs,
      mayOpen: (stream) => {
        if (session.stream(stream.id)) return true;
        if (session.openStreams >= streamBounds.streamsPerSession && !this.#dropLeft(session)) return false;
        session.addStream(stream);
        return true;
      },
      onEnd: (stream) => {
        session.streamEnded(stream);
        this.#rest(stream, session);
        const beyond = session.endedBeyond(streamBounds.restingStreamsPerSession);
        if (beyond) this.#forget(beyond, session);
        this.#makeRoom(session.tenant);
      },
      onKept: (bytes) => {
        this.#kept.add(session.tenant, bytes);
        if (bytes > 0) this.#makeRoom(session.tenant);
      },
      hold: (bytes) => this.#hold(session.tenant, bytes),
      letGo: (bytes) => this.#held.add(session.tenant, -bytes),
      onChange: (stream) => this.#store.change(stream, session),
      onClear: (stream) => {
        this.#wake(stream, session);
        this.#store.remove(stream, session);
      },
      isFull: () => this.#whoLoses(session.tenant) !== undefined,
    };
  }

  /** A client that reconnects without its position has left its old stream for good. */
  #dropLeft(session: Session): boolean {
    const left = session.listeners.find((stream) => !stream.isAttached);
    if (left) this.#forget(left, session);
    return left !== undefined;
  }

  /** Forgets streams that no client came back for, taking turns with the calls of others. */
  async tend(sessions: Iterable<Session>): Promise<void> {
    const takeTurns = turnTaker();
    for (const session of sessions) {
      await takeTurns();
      for (const stream of session.listeners) {
        if (stream.isAttached) this.#wake(stream, session);
        else this.#rest(stream, session);
      }
    }
    for (const tenant of this.#resting.keys()) {
      for (let due = this.#firstOf(tenant); due && due.until <= performance.now(); due = this.#firstOf(tenant)) {
        this.#forget(due.stream, due.session);
        await takeTurns();
      }
    }
  }

  /** Runs after a tenant has kept more: drops the longest-waiting stream first. */
  #makeRoom(tenant: string): void {
    for (let loser = this.#whoLoses(tenant); loser !== undefined; loser = this.#whoLoses(tenant)) {
      const first = this.#firstOf(loser);
      if (!first) return;
      this.#forget(first.stream, first.session);
    }
  }

  #firstOf(tenant: string): { stream: Stream; session: Session; until: number } | undefined {
    for (const [stream, rest] of this.#resting.get(tenant) ?? []) return { stream, ...rest };
    return undefined;
  }

  /** A tenant that keeps more than its share; or the one that keeps most, if the total is too much. */
  #whoLoses(tenant: string): string | undefined {
    if (this.#kept.of(tenant) > this.#limits.replayBytesPerTenant) return tenant;
    if (this.#kept.all <= this.#limits.replayBytes) return undefined;
    let [loser, most]: [string | undefined, number] = [undefined, 0];
    for (const [each, kept] of this.#kept.tenants) {
      const bytes = kept - this.#held.of(each);
      if (bytes > most) [loser, most] = [each, bytes];
    }
    return loser;
  }

  /** Holds at most half of what streams may keep, so that there is room for answers. */
  #hold(tenant: string, bytes: number): BerthError | undefined {
    const { replayBytes, replayBytesPerTenant } = this.#limits;
    const own = this.#held.of(tenant) + bytes > replayBytesPerTenant / 2;
    if (own || this.#held.all + bytes > replayBytes / 2) {
      const most = own
        ? `the questions of a tenant may have ${replayBytesPerTenant / 2} bytes together`
        : `all questions may have ${replayBytes / 2} bytes together`;
      return new BerthError("too_many_questions", `${most}; try again once earlier ones are answered`);
    }
    this.#held.add(tenant, bytes);
    return undefined;
  }

  #rest(stream: Stream, session: Session): void {
    const { tenant } = session;
    const resting = this.#resting.get(tenant) ?? new Map<Stream, { session: Session; until: number }>();
    if (!session.stream(stream.id) || resting.has(stream)) return;
    this.#resting.set(tenant, resting.set(stream, { session, until: performance.now() + streamBounds.replayMs }));
    this.#kept.add(tenant, STREAM_BYTES);
  }

  #wake(stream: Stream, { tenant }: Session): void {
    const resting = this.#resting.get(tenant);
    if (!resting?.delete(stream)) return;
    this.#kept.add(tenant, -STREAM_BYTES);
    if (resting.size === 0) this.#resting.delete(tenant);
  }

  #forget(stream: Stream, session: Session): void {
    session.dropStream(stream);
    stream.end();
    stream.clear();
    if (isToListen(stream) && session.listeners.length === 0) session.stopWatching();
  }
}

export function primes({ facts }: Session): boolean {
  return PRIMING.has(facts.version);
}

/** The request ids in a POST's body. */
export function requestIds(bodies: readonly unknown[]): RequestId[] {
  return bodies.flatMap((body) => {
    const id = isObject(body) && "method" in body ? body["id"] : undefined;
    return typeof id === "string" || typeof id === "number" ? [id] : [];
  });
}

type SessionStreamLimits = Pick<Limits, "replayBytes" | "replayBytesPerTenant" | "streamConnectionMs">;
