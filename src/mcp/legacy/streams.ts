import type { Limits } from "../../limits.ts";
import { BerthError } from "../../errors.ts";
import type { RequestId } from "../json-rpc.ts";
import { isObject } from "../../json.ts";
import type { Session } from "./session.ts";
import type { StoredStream, StreamStore } from "./stream-store.ts";
import { streamId } from "./event-id.ts";
import { Stream, type StreamOptions } from "./stream.ts";

/** Revisions in which events without a message, and reconnecting on the server's word, are known (SEP-1699). */
const PRIMING: ReadonlySet<string> = new Set(["2025-11-25"]);

/** All streams of this process: how many each session has, and how much they keep for clients that come back. */
export class Streams {
  readonly #limits: StreamLimits;
  readonly #store: StreamStore;
  /** Streams that nobody shows, with the time at which they are forgotten; the first to go comes first. */
  readonly #resting = new Map<Stream, { session: Session; until: number }>();
  #keptBytes = 0;
  readonly #keptOf = new Map<string, number>();

  constructor(store: StreamStore, limits: StreamLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** A stream of a POST opens with its first message; one to listen to is opened by whoever asks for it. */
  create(session: Session, requests: readonly RequestId[] | undefined): Stream {
    return new Stream(streamId(requests), this.#optionsOf(session));
  }

  /**
   * Goes on with a stream to listen to that another process had. `position` is what its client has seen, which the
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
    throw new BerthError("too_many_streams", `a session has at most ${this.#limits.streamsPerSession}`);
  }

  #optionsOf(session: Session): StreamOptions {
    const { streamsPerSession, streamEvents, streamBytes, streamRetryMs, connectionMs } = this.#limits;
    return {
      primes: primes(session),
      retryMs: streamRetryMs,
      connectionMs,
      eventsMax: streamEvents,
      bytesMax: streamBytes,
      mayOpen: (stream) => {
        if (session.streams.has(stream.id)) return true;
        if (session.openStreams >= streamsPerSession && !this.#dropLeft(session)) return false;
        session.streams.set(stream.id, stream);
        return true;
      },
      onEnd: (stream) => {
        this.#rest(stream, session);
        this.#makeRoom(session.tenant);
      },
      onKept: (bytes) => {
        this.#count(session.tenant, bytes);
        if (bytes > 0) this.#makeRoom(session.tenant);
      },
      onChange: (stream) => this.#store.change(stream, session),
      onClear: (stream) => this.#store.remove(stream, session),
      isFull: () => this.#whoLoses(session.tenant) !== undefined,
    };
  }

  /** A client that comes back without saying where it was has left its old stream for good. */
  #dropLeft(session: Session): boolean {
    const left = session.listeners.find((stream) => !stream.isAttached);
    if (left) this.#forget(left, session);
    return left !== undefined;
  }

  /** Forgets what nobody came back for. */
  tend(sessions: Iterable<Session>): void {
    for (const session of sessions) {
      for (const stream of session.listeners) {
        if (stream.isAttached) this.#resting.delete(stream);
        else this.#rest(stream, session);
      }
    }
    const now = performance.now();
    for (const [stream, { session, until }] of this.#resting) {
      if (until > now) break;
      this.#forget(stream, session);
    }
  }

  /** After a tenant has kept more: what has waited longest goes first. */
  #makeRoom(tenant: string): void {
    for (const [stream, { session }] of this.#resting) {
      const loser = this.#whoLoses(tenant);
      if (loser === undefined) return;
      if (session.tenant === loser) this.#forget(stream, session);
    }
  }

  /** A tenant that keeps more than its share; or whoever keeps most, where all together is too much. */
  #whoLoses(tenant: string): string | undefined {
    if ((this.#keptOf.get(tenant) ?? 0) > this.#limits.replayBytesPerTenant) return tenant;
    if (this.#keptBytes <= this.#limits.replayBytes) return undefined;
    let most: readonly [tenant: string | undefined, bytes: number] = [undefined, 0];
    for (const kept of this.#keptOf) if (kept[1] > most[1]) most = kept;
    return most[0];
  }

  #count(tenant: string, bytes: number): void {
    this.#keptBytes += bytes;
    const ofTenant = (this.#keptOf.get(tenant) ?? 0) + bytes;
    if (ofTenant === 0) this.#keptOf.delete(tenant);
    else this.#keptOf.set(tenant, ofTenant);
  }

  #rest(stream: Stream, session: Session): void {
    if (!session.streams.has(stream.id) || this.#resting.has(stream)) return;
    this.#resting.set(stream, { session, until: performance.now() + this.#limits.replayMs });
  }

  #forget(stream: Stream, session: Session): void {
    session.streams.delete(stream.id);
    stream.end();
    stream.clear();
    this.#resting.delete(stream);
    if (session.listeners.length === 0) session.stopWatching();
  }
}

export function primes({ facts }: Session): boolean {
  return PRIMING.has(facts.version);
}

/** The request ids of a POST's body. */
export function requestIds(bodies: readonly unknown[]): RequestId[] {
  return bodies.flatMap((body) => {
    const id = isObject(body) && "method" in body ? body["id"] : undefined;
    return typeof id === "string" || typeof id === "number" ? [id] : [];
  });
}

export type StreamLimits = Pick<
  Limits,
  | "streamsPerSession"
  | "streamEvents"
  | "streamBytes"
  | "replayBytes"
  | "replayBytesPerTenant"
  | "replayMs"
  | "streamRetryMs"
  | "connectionMs"
>;
