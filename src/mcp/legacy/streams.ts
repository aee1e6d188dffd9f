import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import { TenantCounts } from "../../lib/tenant-counts.ts";
import type { Limits } from "../../limits/limits.ts";
import type { RequestId } from "../json-rpc.ts";
import type { EventSink } from "../protocol.ts";
import type { Session } from "./session.ts";
import type { StoredStream, StreamStore } from "./stream-store.ts";
import { isToListen, streamBounds, streamId, Stream, type StreamOptions } from "./stream.ts";

/** Revisions with events without a message, and with reconnection at the server's request (SEP-1699). */
const PRIMING: ReadonlySet<string> = new Set(["2025-11-25"]);

/** Memory of a stream in addition to its messages. */
export const STREAM_BYTES = 2 * 1024;

/** All streams of this process: how many each session has, and how much they retain for reconnecting clients. */
export class Streams {
  readonly #limits: SessionStreamLimits;
  readonly #store: StreamStore;
  /** Streams without a connection, by tenant, with the time at which they are dropped, earliest first. */
  readonly #idle = new Map<string, Map<Stream, { session: Session; until: number }>>();
  readonly #retained = new TenantCounts();
  /** Bytes that cannot be dropped, since they wait for answers on open streams. Some are also retained. */
  readonly #reserved = new TenantCounts();

  constructor(store: StreamStore, limits: SessionStreamLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** A POST's stream opens with its first message; a stream to listen to is opened by its caller. */
  create(session: Session, requests: readonly RequestId[] | undefined): Stream {
    return new Stream(streamId(requests), this.#createOptions(session));
  }

  /** For requests on a transport without resumable streams: waiting bytes count as well, until `unreserve`. */
  reserving({ tenant }: Session, sink: EventSink): { readonly events: EventSink; readonly unreserve: () => void } {
    let reserved = 0;
    return {
      events: {
        send: (message, details) => sink.send(message, details),
        hold: (bytes) => {
          const error = this.#reserve(tenant, bytes);
          if (!error) reserved += bytes;
          return error;
        },
      },
      unreserve: () => this.#reserved.add(tenant, -reserved),
    };
  }

  /**
   * Continues a listening stream of another process. `position` is the last event that its client has received, which
   * may be missing from the store. Throws `too_many_streams`.
   */
  adopt(session: Session, position: { stream: string; seq: number }, stored: StoredStream): Stream {
    const options = this.#createOptions(session);
    const last = Math.max(stored.retained.last, position.seq);
    const stream = new Stream(position.stream, options, { ...stored.retained, last });
    if (options.mayOpen(stream)) {
      this.#store.adopt(stream, stored);
      this.#store.change(stream, session);
      return stream;
    }
    stream.clear();
    throw new BerthError("too_many_streams", `a session has at most ${streamBounds.streamsPerSession}`);
  }

  #createOptions(session: Session): StreamOptions {
    return {
      primes: primes(session),
      streamConnectionMs: this.#limits.streamConnectionMs,
      mayOpen: (stream) => {
        if (session.stream(stream.id)) return true;
        if (session.openStreams >= streamBounds.streamsPerSession && !this.#dropAbandoned(session)) return false;
        session.addStream(stream);
        return true;
      },
      onEnd: (stream) => {
        session.streamEnded(stream);
        this.#markIdle(stream, session);
        const beyond = session.endedBeyond(streamBounds.restingStreamsPerSession);
        if (beyond) this.#drop(beyond, session);
        this.#enforceLimits(session.tenant);
      },
      onRetained: (bytes) => {
        this.#retained.add(session.tenant, bytes);
        if (bytes > 0) this.#enforceLimits(session.tenant);
      },
      reserve: (bytes) => this.#reserve(session.tenant, bytes),
      unreserve: (bytes) => this.#reserved.add(session.tenant, -bytes),
      onChange: (stream) => this.#store.change(stream, session),
      onClear: (stream) => {
        this.#unmarkIdle(stream, session);
        this.#store.remove(stream, session);
      },
      isFull: () => this.#overLimitTenant(session.tenant) !== undefined,
    };
  }

  /** A client that reconnects without its position has abandoned its old stream. */
  #dropAbandoned(session: Session): boolean {
    const abandoned = session.listeners.find((stream) => !stream.isAttached);
    if (abandoned) this.#drop(abandoned, session);
    return abandoned !== undefined;
  }

  /** Drops streams that no client returned to, and tracks idle ones. */
  async maintain(sessions: Iterable<Session>): Promise<void> {
    const maybeYield = createYielder();
    for (const session of sessions) {
      await maybeYield();
      for (const stream of session.listeners) {
        if (stream.isAttached) this.#unmarkIdle(stream, session);
        else this.#markIdle(stream, session);
      }
    }
    for (const tenant of this.#idle.keys()) {
      for (let due = this.#firstIdle(tenant); due && due.until <= performance.now(); due = this.#firstIdle(tenant)) {
        this.#drop(due.stream, due.session);
        await maybeYield();
      }
    }
  }

  /** Runs after a tenant's retained bytes have grown: drops the longest-idle stream first. */
  #enforceLimits(tenant: string): void {
    for (let over = this.#overLimitTenant(tenant); over !== undefined; over = this.#overLimitTenant(tenant)) {
      const first = this.#firstIdle(over);
      if (!first) return;
      this.#drop(first.stream, first.session);
    }
  }

  #firstIdle(tenant: string): { stream: Stream; session: Session; until: number } | undefined {
    for (const [stream, rest] of this.#idle.get(tenant) ?? []) return { stream, ...rest };
    return undefined;
  }

  /** A tenant above its limit; or the tenant that retains most, if the total is above the limit. */
  #overLimitTenant(tenant: string): string | undefined {
    if (this.#retained.of(tenant) > this.#limits.replayBytesPerTenant) return tenant;
    if (this.#retained.all <= this.#limits.replayBytes) return undefined;
    let [largest, most]: [string | undefined, number] = [undefined, 0];
    for (const [each, retained] of this.#retained.tenants) {
      const bytes = retained - this.#reserved.of(each);
      if (bytes > most) [largest, most] = [each, bytes];
    }
    return largest;
  }

  /** Reserves at most half of what streams may retain, so that answers still fit. */
  #reserve(tenant: string, bytes: number): BerthError | undefined {
    const { replayBytes, replayBytesPerTenant } = this.#limits;
    const exceedsOwn = this.#reserved.of(tenant) + bytes > replayBytesPerTenant / 2;
    if (exceedsOwn || this.#reserved.all + bytes > replayBytes / 2) {
      const most = exceedsOwn
        ? `the pending questions of a tenant may have ${replayBytesPerTenant / 2} bytes in total`
        : `all pending questions may have ${replayBytes / 2} bytes in total`;
      return new BerthError("too_many_questions", `${most}; try again once earlier ones are answered`);
    }
    this.#reserved.add(tenant, bytes);
    return undefined;
  }

  #markIdle(stream: Stream, session: Session): void {
    const { tenant } = session;
    const idle = this.#idle.get(tenant) ?? new Map<Stream, { session: Session; until: number }>();
    if (!session.stream(stream.id) || idle.has(stream)) return;
    this.#idle.set(tenant, idle.set(stream, { session, until: performance.now() + streamBounds.replayMs }));
    this.#retained.add(tenant, STREAM_BYTES);
  }

  #unmarkIdle(stream: Stream, { tenant }: Session): void {
    const idle = this.#idle.get(tenant);
    if (!idle?.delete(stream)) return;
    this.#retained.add(tenant, -STREAM_BYTES);
    if (idle.size === 0) this.#idle.delete(tenant);
  }

  #drop(stream: Stream, session: Session): void {
    session.dropStream(stream);
    stream.end();
    stream.clear();
    if (isToListen(stream) && session.listeners.length === 0) session.stopWatching();
  }
}

export function primes({ claims }: Session): boolean {
  return PRIMING.has(claims.version);
}

/** The request ids in a POST's body. */
export function requestIds(bodies: readonly unknown[]): RequestId[] {
  return bodies.flatMap((body) => {
    const id = isObject(body) && "method" in body ? body["id"] : undefined;
    return typeof id === "string" || typeof id === "number" ? [id] : [];
  });
}

type SessionStreamLimits = Pick<Limits, "replayBytes" | "replayBytesPerTenant" | "streamConnectionMs">;
