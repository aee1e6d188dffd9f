import { clock, type Timer } from "../../lib/clock.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { Closed } from "../transport/channel.ts";
import { requestBounds } from "../transport/transport.ts";
import type { UpstreamConnection } from "./connection.ts";

const bounds = fixed({
  /**
   * How long an upstream that owes an answer may send nothing. If one of its calls is given up after that, it is pinged;
   * if it still sends nothing for as long again, its connection and its process are ended.
   */
  upstreamPingMs: 15_000,
  /** The first and the longest wait between a failed start and the next. */
  upstreamBackoffMs: 500,
  upstreamBackoffMaxMs: 4_000,
  /** From the loss of a connection to its automatic reopening, after any backoff. */
  upstreamReopenMs: 100,
});

interface SupervisorOptions {
  readonly name: string;
  readonly limits: Pick<Limits, "upstreamIdleMs">;
  readonly open: (signal: AbortSignal) => Promise<UpstreamConnection>;
  /**
   * Makes room for one more connection before it is opened; resolves with a function to call at its end. Rejects if
   * there is no room.
   */
  readonly takePlace?: (() => Promise<() => void>) | undefined;
  /** Runs before the first request on each connection. A rejection ends the connection. */
  readonly onOpen?: (connection: UpstreamConnection) => Promise<void>;
  /** A running connection has ended by itself, or because the server had become silent. */
  readonly onLost?: (closed: Closed) => void;
  /** The connection failed to open; waiting requests are told, too. */
  readonly onFailed?: (error: unknown) => void;
}

/** A connection for one request, which tells here how it ended: once, in either way. */
export interface AcquiredConnection {
  readonly connection: UpstreamConnection;
  succeeded(): void;
  /** Returns the error for the caller: it may say how long to wait. */
  failed(error: unknown): unknown;
}

interface Open {
  readonly connection: UpstreamConnection;
  readonly startedAt: number;
  readonly liveness: Liveness;
  /** In progress on it. */
  requests: number;
}

/** A connection that served for this long has lasted: its end is no failed start. */
const LASTED_MS = 10_000;

/**
 * One shared connection to an upstream: opened on demand, reopened when it is lost, with longer and longer waits while
 * that fails, and ended when idle.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #ending = new AbortController();
  #opening: Promise<Open> | undefined;
  #current: Open | undefined;
  /** Connections that end with their last request. */
  readonly #retired = new Set<Open>();
  /** Counts calls of `renew`. */
  #renewals = 0;
  #requests = 0;
  #starts = 0;
  readonly #failed = new FailedStarts();
  /** The next automatic start after a loss. */
  #reopening: Timer | undefined;
  readonly #idle: IdleTimer;
  /** The end of an idle connection; another one may be opened meanwhile. */
  #stopping: Promise<void> | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    const stop = (): void => void (this.#stopping = this.#stop());
    this.#idle = new IdleTimer(options.limits.upstreamIdleMs, () => this.#requests > 0, stop);
  }

  /**
   * Acquires the connection for one request, and opens it if there is none. Rejects with the reason why there is none.
   */
  async acquire(): Promise<AcquiredConnection> {
    const { name } = this.#options;
    const { upstreamRequests } = requestBounds;
    if (this.#requests >= upstreamRequests) {
      throw new UpstreamError("upstream_busy", `${name} has ${upstreamRequests} requests under way`);
    }
    this.#requests++;
    let open: Open;
    const hasBegun = this.#opening !== undefined;
    try {
      // A start that began before this request says nothing about the server as it is now.
      open =
        this.#current ??
        (await this.#connected().catch((error: unknown) => {
          if (!hasBegun || this.#failed.waitMs !== undefined) throw error;
          return this.#connected();
        }));
    } catch (error) {
      this.#requests--;
      this.#idle.used();
      throw error;
    }
    open.requests++;
    open.liveness.began();
    return {
      connection: open.connection,
      succeeded: () => {
        open.liveness.ended();
        this.#release(open);
      },
      failed: (error) => {
        void this.#doubt(open, error);
        this.#release(open);
        return error;
      },
    };
  }

  /** Runs `work` with the connection if there is one, without counting as a request; never starts one. */
  async peek(work: (connection: UpstreamConnection) => Promise<void>): Promise<void> {
    const open = this.#current ?? (await this.#opening?.catch(() => undefined));
    if (open) await work(open.connection);
  }

  get health(): UpstreamHealth {
    const starts = { failed: this.#failed, count: this.#starts, isOneUnderWay: this.#opening !== undefined };
    return healthOf(this.#current?.connection, starts, this.#requests);
  }

  /** New requests get a new connection at once; requests under way keep theirs. */
  renew(): void {
    this.#renewals++;
    this.#failed.forget();
    const open = this.#current;
    this.#current = undefined;
    if (!open) return;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
  }

  /** The time of the last use, by `clock`. */
  get usedAt(): number {
    return this.#idle.usedAt;
  }

  /** Ends the connection if it is idle; the next request gets a new one. Undefined if there is none to end. */
  rest(): Promise<unknown> | undefined {
    const open = this.#current;
    if (!open || this.#requests > 0) return undefined;
    this.#current = undefined;
    this.#retired.add(open);
    this.#end(open);
    return open.connection.closed;
  }

  /** Ends the connection at once; requests under way fail, and the next one gets another. */
  async cut(reason: string): Promise<void> {
    this.#renewals++;
    const all = [...this.#retired, ...(this.#current ? [this.#current] : [])];
    this.#current = undefined;
    await Promise.all(all.map(({ connection }) => connection.close(reason)));
  }

  /** Ends the connection; requests under way fail. Nothing is started afterwards. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#idle.stop();
    this.#reopening?.clear();
    await this.#opening?.catch(() => {});
    const all = [...this.#retired, ...(this.#current ? [this.#current] : [])];
    await Promise.all([...all.map(({ connection }) => connection.close()), this.#stopping]);
  }

  #release(open: Open): void {
    this.#requests--;
    if (--open.requests === 0 && open !== this.#current && this.#retired.has(open)) this.#end(open);
    this.#idle.used();
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
        // Earlier failures still count until the connection has lasted.
        this.#failed.reason = undefined;
        this.#current = open;
        return open;
      }
      await open.connection.close();
    }
  }

  async #openOnce(): Promise<Open> {
    const { open, onOpen, takePlace } = this.#options;
    // A lack of room is no failed start: the next one may try at once.
    const leave = await takePlace?.();
    this.#starts++;
    const startedAt = clock.now();
    try {
      const opening = open(this.#ending.signal);
      if (leave) opening.catch(leave);
      const connection = await opening;
      if (leave) void connection.closed.then(leave);
      const liveness = new Liveness(connection, bounds.upstreamPingMs);
      const made = { connection, startedAt, liveness, requests: 0 };
      void connection.closed.then((closed) => this.#ended(made, closed));
      void connection.stale?.then((reason) => this.#replace(made, reason));
      try {
        await onOpen?.(connection);
      } catch (error) {
        await connection.close();
        throw error;
      }
      return made;
    } catch (error) {
      // Neither is a lack of descriptors on this machine, or a crash of the process that reads long messages.
      if (!(error instanceof BerthError && OF_THE_SERVICE.has(error.code)))
        this.#failed.add(error instanceof Error ? error.message : String(error));
      this.#options.onFailed?.(error);
      throw error;
    }
  }

  /** A request has failed: if its server has become silent, new requests get another connection. */
  async #doubt(open: Open, error: unknown): Promise<void> {
    const { liveness, connection } = open;
    if (!(await liveness.isEndless(error))) return;
    const reason = `sent nothing for ${Math.round((clock.now() - liveness.since) / 1000)} s, not even an answer to a ping`;
    if (this.#current === open) {
      this.#current = undefined;
      this.#count(open, reason, liveness.since - open.startedAt);
      void connection.closed.then((closed) => this.#options.onLost?.(closed));
    }
    await connection.close(reason).catch((failure: unknown) => this.#options.onFailed?.(failure));
  }

  #ended(open: Open, closed: Closed): void {
    if (this.#current !== open) return;
    this.#current = undefined;
    if (closed.expected) return;
    this.#count(open, closed.reason, clock.now() - open.startedAt);
    this.#options.onLost?.(closed);
    this.#reopen();
  }

  /** The server is there, or may be soon, but this connection is of no more use to new requests. */
  #replace(open: Open, reason: string): void {
    if (this.#current !== open) return;
    this.#current = undefined;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
    this.#failed.reason = `${this.#options.name} ${reason}`;
    this.#options.onLost?.({ reason, stderr: "", expected: false });
    this.#reopen();
  }

  /** Clients may wait for notifications alone, and its lists may have changed: opens it again while it is in use. */
  #reopen(): void {
    this.#reopening?.clear();
    const again = (): void => {
      if (this.#current || clock.now() - this.#idle.usedAt > this.#options.limits.upstreamIdleMs) return;
      this.#connected().catch(() => this.#reopen());
    };
    this.#reopening = clock.after((this.#failed.waitMs ?? 0) + bounds.upstreamReopenMs, again).unref();
  }

  /** A connection was lost after `servedMs`. A call that may have caused it must not make others wait. */
  #count({ requests }: Open, why: string, servedMs: number): void {
    const reason = `${this.#options.name} ${why}`;
    if (servedMs >= LASTED_MS) this.#failed.lasted();
    if (requests === 0) this.#failed.add(reason);
    // The next start need not wait.
    else this.#failed.reason = reason;
  }

  async #stop(): Promise<void> {
    const open = this.#current;
    this.#current = undefined;
    this.#failed.lasted();
    await open?.connection.close();
  }
}

const OF_THE_SERVICE: ReadonlySet<ErrorCode> = new Set(["no_descriptors", "check_failed"]);

/** The state of an upstream, for people and for metrics. */
export interface UpstreamHealth {
  readonly state: "idle" | "starting" | "running" | "failed";
  /** Starts so far. */
  readonly starts: number;
  readonly requests: number;
  /** The last failure; safe to show. */
  readonly failure?: string;
  /** Milliseconds since the epoch: no retry before then. */
  readonly retryAt?: number;
  /** Facts of the running connection, such as `2026-07-28`. */
  readonly protocolVersion?: string;
  readonly server?: { readonly name: string; readonly version: string };
  /** Kinds of malformed messages, such as "answers with `result: null`", and how often each has come. */
  readonly deviations?: readonly { readonly what: string; readonly count: number }[];
}

function healthOf(
  connection: UpstreamConnection | undefined,
  starts: { readonly failed: FailedStarts; readonly count: number; readonly isOneUnderWay: boolean },
  requests: number,
): UpstreamHealth {
  const { reason, waitMs } = starts.failed;
  const whileNone = starts.isOneUnderWay ? "starting" : reason === undefined ? "idle" : "failed";
  const server = connection?.serverInfo;
  return {
    state: connection ? "running" : whileNone,
    starts: starts.count,
    requests,
    ...(reason !== undefined && { failure: reason }),
    // For people, by their clock as it is now.
    // oxlint-disable-next-line no-restricted-properties
    ...(!connection && waitMs !== undefined && { retryAt: Math.ceil(Date.now() + waitMs) }),
    ...(connection && { protocolVersion: connection.protocolVersion }),
    ...(server && { server: { name: server.name, version: server.version } }),
  };
}

type Asked = Pick<UpstreamConnection, "heard" | "isThere">;

/**
 * Detects that an upstream has become silent: a stopped process, or one in an endless loop, still runs. It is pinged
 * once a call was given up and nothing has arrived since a request was made; any message proves that it is there,
 * however long a call takes.
 */
export class Liveness {
  /** The start of its silence, though a request waits: by `clock`. */
  since = 0;
  readonly #connection: Asked;
  readonly #pingMs: number;
  /** The value of `heard` at the start of the longest waiting request; NONE while none waits. */
  #heard = NONE;
  #isAsked = false;

  constructor(connection: Asked, pingMs: number) {
    this.#connection = connection;
    this.#pingMs = pingMs;
  }

  /** A request begins. */
  began(): void {
    const { heard } = this.#connection;
    if (heard === this.#heard) return;
    this.#heard = heard;
    this.since = clock.now();
  }

  /** A request has ended, other than by being given up. */
  ended(): void {
    this.#heard = NONE;
  }

  /** A request has failed. Resolves with true, once only, if the server turns out to be silent. */
  async isEndless(error: unknown): Promise<boolean> {
    if (!isGivenUp(error)) this.ended();
    if (this.#isAsked || !this.#lasts()) return false;
    this.#isAsked = true;
    if (!(await this.#connection.isThere(this.#pingMs)) && this.#lasts()) return true;
    this.#isAsked = false;
    return false;
  }

  #lasts(): boolean {
    return this.#connection.heard === this.#heard && clock.now() - this.since >= this.#pingMs;
  }
}

const NONE = -1;

/** True when nothing waits for the answer any more. */
function isGivenUp(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "cancelled" || error.code === "upstream_timeout");
}

/** The back-off after failed starts. The first failure lets the next start try at once: most succeed. */
class FailedStarts {
  /** Why the last start failed, or why the last connection was lost; undefined if neither happened. */
  reason: string | undefined;
  #count = 0;
  #notBefore = 0;

  /** Milliseconds until the next try; undefined if it may begin now. */
  get waitMs(): number | undefined {
    const waitMs = this.#notBefore - clock.now();
    return waitMs > 0 ? waitMs : undefined;
  }

  add(reason: string): void {
    const { upstreamBackoffMs, upstreamBackoffMaxMs } = bounds;
    this.reason = reason;
    const before = this.#count++;
    const waitMs = before === 0 ? 0 : Math.min(upstreamBackoffMs * 2 ** (before - 1), upstreamBackoffMaxMs);
    this.#notBefore = clock.now() + waitMs;
  }

  /** The next failure counts as the first. */
  lasted(): void {
    this.#count = 0;
  }

  forget(): void {
    this.#count = 0;
    this.reason = undefined;
    this.#notBefore = 0;
  }
}

/** Tells when something has not been used for a while, with a single timer. Keeps no process alive. */
class IdleTimer {
  /** By `clock`. */
  usedAt = 0;
  readonly #ms: number;
  readonly #isInUse: () => boolean;
  readonly #onIdle: () => void;
  #timer: Timer | undefined;

  constructor(ms: number, isInUse: () => boolean, onIdle: () => void) {
    this.#ms = ms;
    this.#isInUse = isInUse;
    this.#onIdle = onIdle;
  }

  used(): void {
    this.usedAt = clock.now();
    this.#timer ??= this.#look(this.#ms);
  }

  stop(): void {
    this.#timer?.clear();
  }

  #look(ms: number): Timer {
    const look = (): void => {
      this.#timer = undefined;
      const leftMs = this.usedAt + this.#ms - clock.now();
      if (this.#isInUse() || leftMs > 0) this.#timer = this.#look(Math.max(leftMs, LEAST_MS));
      else this.#onIdle();
    };
    return clock.after(ms, look).unref();
  }
}

const LEAST_MS = 1_000;
