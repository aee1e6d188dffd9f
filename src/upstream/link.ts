import { BerthError, type ErrorCode } from "../lib/errors.ts";
import type { Closed } from "./channel.ts";
import type { UpstreamConnection } from "./connection.ts";
import { FailedStarts, type StartWaits } from "./failed-starts.ts";
import { IdleTimer } from "./idle-timer.ts";
import { healthOf, type LinkHealth } from "./link-health.ts";
import { Silence } from "./silence.ts";
import { UpstreamError } from "./upstream-error.ts";

export interface LinkLimits extends StartWaits {
  /** After which a connection that nobody uses is ended; it is made again on demand. */
  readonly upstreamIdleMs: number;
  /** Requests at once on one connection. */
  readonly upstreamRequests: number;
  readonly upstreamPingMs: number;
}

export interface LinkOptions {
  readonly name: string;
  readonly limits: LinkLimits;
  readonly open: (signal: AbortSignal) => Promise<UpstreamConnection>;
  /** Makes room for one more connection before it is opened, and gives what its end has to call. Rejects where there is none. */
  readonly takePlace?: (() => Promise<() => void>) | undefined;
  /** Runs before the first request on each connection. A rejection ends the connection. */
  readonly onOpen?: (connection: UpstreamConnection) => Promise<void>;
  /** A connection that was running has ended by itself, or because it said nothing any more. */
  readonly onLost?: (closed: Closed) => void;
  /** It could not be made; whoever waits for it hears of it, too. */
  readonly onFailed?: (error: unknown) => void;
}

interface Open {
  readonly connection: UpstreamConnection;
  readonly startedAt: number;
  readonly silence: Silence;
  /** Under way on it. */
  requests: number;
  /** The calls among them, by what tells the same call again. */
  readonly calls: string[];
}

/** Calls during which the server has ended that are remembered; the oldest is forgotten first. */
const SUSPECTS_MAX = 1_000;

/** A connection lasted when it served for so long: then its end is no failed start. */
const LASTED_MS = 10_000;

/**
 * One connection to a server of others that many share: made when it is needed, made again when it is lost, with
 * longer and longer waits while that fails, and ended when nobody uses it.
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #ending = new AbortController();
  #opening: Promise<Open> | undefined;
  #current: Open | undefined;
  /** Those that end with the last request on them. */
  readonly #retired = new Set<Open>();
  /** Counts the wishes for another connection. */
  #renewals = 0;
  #requests = 0;
  #starts = 0;
  readonly #failed: FailedStarts;
  /** Calls that the server has ended during: those wait before they are made again, and nobody else does. */
  readonly #suspects = new Map<string, FailedStarts>();
  readonly #idle: IdleTimer;
  /** The end of a connection that nobody used; another one may be made meanwhile. */
  #stopping: Promise<void> | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
    const { limits } = options;
    this.#failed = new FailedStarts(limits);
    const stop = (): void => void (this.#stopping = this.#stop());
    this.#idle = new IdleTimer(limits.upstreamIdleMs, () => this.#requests > 0, stop);
  }

  /**
   * Gives `work` the connection. Rejects as `work` does, or with why there is no connection. `call` is the same for the
   * same call.
   */
  async use<T>(work: (connection: UpstreamConnection) => Promise<T>, call?: string): Promise<T> {
    const { name, limits } = this.#options;
    if (call !== undefined) this.#checkSuspect(call);
    if (this.#requests >= limits.upstreamRequests) {
      throw new UpstreamError("upstream_busy", `${name} has ${limits.upstreamRequests} requests under way`);
    }
    this.#requests++;
    let open: Open | undefined;
    try {
      open = this.#current ?? (await this.#connected());
      open.requests++;
      if (call !== undefined) open.calls.push(call);
      open.silence.began();
      const result = await work(open.connection);
      open.silence.ended();
      if (call !== undefined) this.#suspects.delete(call);
      return result;
    } catch (error) {
      if (open) void this.#doubt(open, error, call);
      throw call === undefined ? error : this.#withWait(error, call);
    } finally {
      this.#requests--;
      if (open && call !== undefined) open.calls.splice(open.calls.indexOf(call), 1);
      if (open && --open.requests === 0 && open !== this.#current && this.#retired.has(open)) this.#end(open);
      this.#idle.used();
    }
  }

  /** Gives `work` the connection if there is one, beside all requests; nothing is started for it. */
  async peek(work: (connection: UpstreamConnection) => Promise<void>): Promise<void> {
    const open = this.#current ?? (await this.#opening?.catch(() => undefined));
    if (open) await work(open.connection);
  }

  get health(): LinkHealth {
    const starts = { failed: this.#failed, count: this.#starts, isOneUnderWay: this.#opening !== undefined };
    return healthOf(this.#current?.connection, starts, this.#requests);
  }

  /** Whoever comes from now on gets a new connection, and at once; requests under way keep the one that they have. */
  renew(): void {
    this.#renewals++;
    this.#failed.forget();
    const open = this.#current;
    this.#current = undefined;
    if (!open) return;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
  }

  /** When it was used last, on the clock of `performance.now()`. */
  get usedAt(): number {
    return this.#idle.usedAt;
  }

  /** Ends a connection that nobody uses now; whoever comes next gets a new one. Undefined where there is none to end. */
  rest(): Promise<unknown> | undefined {
    const open = this.#current;
    if (!open || this.#requests > 0) return undefined;
    this.#current = undefined;
    this.#retired.add(open);
    this.#end(open);
    return open.connection.closed;
  }

  /** Ends the connection; requests under way fail. Nothing is started after it. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#idle.stop();
    await this.#opening?.catch(() => {});
    const all = [...this.#retired, ...(this.#current ? [this.#current] : [])];
    await Promise.all([...all.map(({ connection }) => connection.close()), this.#stopping]);
  }

  #end(open: Open): void {
    const closing = open.connection.close().catch((error: unknown) => this.#options.onFailed?.(error));
    void closing.finally(() => this.#retired.delete(open));
  }

  #connected(): Promise<Open> {
    if (this.#ending.signal.aborted) return Promise.reject(new BerthError("cancelled", "this Berth is shutting down"));
    const { reason, waitMs } = this.#failed;
    if (waitMs !== undefined && !this.#opening) {
      const seconds = Math.ceil(waitMs / 1000);
      const detail = `${reason ?? this.#options.name}; the next try is in ${seconds} s`;
      return Promise.reject(new UpstreamError("upstream_not_started", detail));
    }
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #open(): Promise<Open> {
    for (;;) {
      const renewals = this.#renewals;
      const open = await this.#openOnce();
      if (renewals === this.#renewals) {
        this.#failed.worked();
        this.#current = open;
        return open;
      }
      await open.connection.close();
    }
  }

  async #openOnce(): Promise<Open> {
    const { open, onOpen, takePlace } = this.#options;
    // That there is no room is no failed start: the next one may try at once.
    const leave = await takePlace?.();
    this.#starts++;
    const startedAt = performance.now();
    try {
      const opening = open(this.#ending.signal);
      if (leave) opening.catch(leave);
      const connection = await opening;
      if (leave) void connection.closed.then(leave);
      const silence = new Silence(connection, this.#options.limits.upstreamPingMs);
      const made = { connection, startedAt, silence, requests: 0, calls: [] };
      void connection.closed.then((closed) => this.#ended(made, closed));
      try {
        await onOpen?.(connection);
      } catch (error) {
        await connection.close();
        throw error;
      }
      return made;
    } catch (error) {
      // Nor is it one where this machine lacked descriptors, or the process that reads long messages ended.
      if (!(error instanceof BerthError && OF_THE_SERVICE.has(error.code))) this.#failed.add(detailOf(error));
      this.#options.onFailed?.(error);
      throw error;
    }
  }

  /** A request has failed: where its server says nothing any more, whoever comes from now on gets another one. */
  async #doubt(open: Open, error: unknown, call: string | undefined): Promise<void> {
    const { silence, connection, startedAt } = open;
    if (!(await silence.isEndless(error, call))) return;
    const reason = `said nothing for ${Math.round((performance.now() - silence.since) / 1000)} s, not even to a ping`;
    if (this.#current === open) {
      this.#current = undefined;
      this.#count(reason, [...open.calls, ...silence.calls], silence.since - startedAt);
      void connection.closed.then((closed) => this.#options.onLost?.(closed));
    }
    await connection.close(reason).catch((failure: unknown) => this.#options.onFailed?.(failure));
  }

  #ended(open: Open, closed: Closed): void {
    if (this.#current !== open) return;
    this.#current = undefined;
    if (closed.expected) return;
    this.#count(closed.reason, open.calls, performance.now() - open.startedAt);
    this.#options.onLost?.(closed);
  }

  /** It was lost after it had served for so long, with these calls under way. */
  #count(why: string, calls: readonly string[], servedMs: number): void {
    const reason = `${this.#options.name} ${why}`;
    if (servedMs >= LASTED_MS) this.#failed.lasted();
    if (calls.length === 0) this.#failed.add(reason);
    else this.#failed.tell(reason);
    for (const call of new Set(calls)) this.#suspect(call, reason);
  }

  /** It had started as it should: who makes other calls does not wait for another one. */
  #suspect(call: string, reason: string): void {
    const known = this.#suspects.get(call) ?? new FailedStarts(this.#options.limits);
    known.add(reason);
    this.#suspects.delete(call);
    this.#suspects.set(call, known);
    const [oldest] = this.#suspects.keys();
    if (this.#suspects.size > SUSPECTS_MAX) this.#suspects.delete(oldest!);
  }

  #checkSuspect(call: string): void {
    const { reason, waitMs } = this.#suspects.get(call) ?? {};
    if (waitMs === undefined) return;
    const seconds = Math.ceil(waitMs / 1000);
    const detail = `${reason} whenever this call was made; the next try is in ${seconds} s`;
    throw new UpstreamError("upstream_ended", detail, { data: { retryAfterSeconds: seconds } });
  }

  /** That it may be tried again is true only after the wait that the call itself has brought about. */
  #withWait(error: unknown, call: string): unknown {
    const waitMs = this.#suspects.get(call)?.waitMs;
    if (waitMs === undefined || !(error instanceof UpstreamError) || error.code !== "upstream_ended") return error;
    const seconds = Math.ceil(waitMs / 1000);
    const detail = `${error.detail}, as it did when this call was made before; the next try is in ${seconds} s`;
    return new UpstreamError("upstream_ended", detail, { data: { retryAfterSeconds: seconds }, cause: error });
  }

  async #stop(): Promise<void> {
    const open = this.#current;
    this.#current = undefined;
    this.#failed.lasted();
    await open?.connection.close();
  }
}

const OF_THE_SERVICE: ReadonlySet<ErrorCode> = new Set(["no_descriptors", "check_failed"]);

function detailOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
