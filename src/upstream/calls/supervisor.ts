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
   * How long an upstream that owes an answer may send nothing. If one of its calls is abandoned after that, it is
   * pinged; if it is silent for as long again, its connection and its process are ended.
   */
  upstreamPingMs: 15_000,
  /** The first and the longest delay after a failed start. */
  upstreamBackoffMs: 500,
  upstreamBackoffMaxMs: 4_000,
  /** The delay before a lost connection is reopened, after any backoff. */
  upstreamReopenMs: 100,
});

interface SupervisorOptions {
  readonly name: string;
  readonly limits: Pick<Limits, "upstreamIdleMs">;
  readonly open: (signal: AbortSignal) => Promise<UpstreamConnection>;
  /**
   * Acquires a slot for one more connection before it is opened; resolves with a function that releases it. Rejects if
   * none is free.
   */
  readonly acquireSlot?: (() => Promise<() => void>) | undefined;
  /** Runs before the first request on each connection. A rejection ends the connection. */
  readonly onOpen?: (connection: UpstreamConnection) => Promise<void>;
  /** A running connection has ended on its own, or because the server had become unresponsive. */
  readonly onLost?: (closed: Closed) => void;
  /** The connection failed to open; waiting requests get the error, too. */
  readonly onFailed?: (error: unknown) => void;
}

/** A connection for one request, whose outcome is reported here, exactly once. */
export interface AcquiredConnection {
  readonly connection: UpstreamConnection;
  succeeded(): void;
  failed(error: unknown): unknown;
}

interface Open {
  readonly connection: UpstreamConnection;
  readonly startedAt: number;
  readonly liveness: Liveness;
  requests: number;
}

/** A connection that served this long has lasted: its end is not a failed start. */
const LASTED_MS = 10_000;

/**
 * One shared connection to an upstream: opened on demand, reopened with backoff when it is lost, and ended when idle.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #ending = new AbortController();
  #opening: Promise<Open> | undefined;
  #current: Open | undefined;
  readonly #retired = new Set<Open>();
  #renewals = 0;
  #requests = 0;
  #starts = 0;
  readonly #failed = new FailedStarts();
  #reopening: Timer | undefined;
  readonly #idle: IdleTimer;
  /** The end of an idle connection; another one may be opened in the meantime. */
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
      throw new UpstreamError("upstream_busy", `${name} has ${upstreamRequests} requests in progress`);
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
        void this.#checkLiveness(open, error);
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

  /** New requests get a new connection immediately; requests in progress keep theirs. */
  renew(): void {
    this.#renewals++;
    this.#failed.forget();
    const open = this.#current;
    this.#current = undefined;
    if (!open) return;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
  }

  get usedAt(): number {
    return this.#idle.usedAt;
  }

  /** Ends the connection if it is idle; the next request gets a new one. Undefined if there is none to end. */
  stopIfIdle(): Promise<unknown> | undefined {
    const open = this.#current;
    if (!open || this.#requests > 0) return undefined;
    this.#current = undefined;
    this.#retired.add(open);
    this.#end(open);
    return open.connection.closed;
  }

  /** Ends the connection immediately; requests in progress fail, and the next one gets another. */
  async cut(reason: string): Promise<void> {
    this.#renewals++;
    const all = [...this.#retired, ...(this.#current ? [this.#current] : [])];
    this.#current = undefined;
    await Promise.all(all.map(({ connection }) => connection.close(reason)));
  }

  /** Ends the connection; requests in progress fail. Nothing is started afterwards. */
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
        // Earlier failures count until the connection has lasted.
        this.#failed.reason = undefined;
        this.#current = open;
        return open;
      }
      await open.connection.close();
    }
  }

  async #openOnce(): Promise<Open> {
    const { open, onOpen, acquireSlot } = this.#options;
    // Waiting for a slot is not a failed start: the next one may try immediately.
    const releaseSlot = await acquireSlot?.();
    this.#starts++;
    const startedAt = clock.now();
    try {
      const opening = open(this.#ending.signal);
      if (releaseSlot) opening.catch(releaseSlot);
      const connection = await opening;
      if (releaseSlot) void connection.closed.then(releaseSlot);
      const liveness = new Liveness(connection, bounds.upstreamPingMs);
      const opened = { connection, startedAt, liveness, requests: 0 };
      void connection.closed.then((closed) => this.#ended(opened, closed));
      void connection.stale?.then((reason) => this.#replace(opened, reason));
      try {
        await onOpen?.(connection);
      } catch (error) {
        await connection.close();
        throw error;
      }
      return opened;
    } catch (error) {
      // A lack of descriptors on this machine, or a crash of the process that reads long messages, is no failed start
      // either.
      if (!(error instanceof BerthError && OWN_FAULTS.has(error.code)))
        this.#failed.add(error instanceof Error ? error.message : String(error));
      this.#options.onFailed?.(error);
      throw error;
    }
  }

  /** A request has failed: if its server has become unresponsive, new requests get another connection. */
  async #checkLiveness(open: Open, error: unknown): Promise<void> {
    const { liveness, connection } = open;
    if (!(await liveness.isUnresponsive(error))) return;
    const reason = `sent nothing for ${Math.round((clock.now() - liveness.since) / 1000)} s, not even an answer to a ping`;
    if (this.#current === open) {
      this.#current = undefined;
      this.#countLoss(open, reason, liveness.since - open.startedAt);
      void connection.closed.then((closed) => this.#options.onLost?.(closed));
    }
    await connection.close(reason).catch((failure: unknown) => this.#options.onFailed?.(failure));
  }

  #ended(open: Open, closed: Closed): void {
    if (this.#current !== open) return;
    this.#current = undefined;
    if (closed.expected) return;
    this.#countLoss(open, closed.reason, clock.now() - open.startedAt);
    this.#options.onLost?.(closed);
    this.#reopen();
  }

  /** The server may be available, but this connection is of no more use to new requests. */
  #replace(open: Open, reason: string): void {
    if (this.#current !== open) return;
    this.#current = undefined;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
    this.#failed.reason = `${this.#options.name} ${reason}`;
    this.#options.onLost?.({ reason, stderr: "", expected: false });
    this.#reopen();
  }

  /**
   * Reopens the connection while it is in use: clients may wait for notifications alone, and its lists may have
   * changed.
   */
  #reopen(): void {
    this.#reopening?.clear();
    const retry = (): void => {
      if (this.#current || clock.now() - this.#idle.usedAt > this.#options.limits.upstreamIdleMs) return;
      this.#connected().catch(() => this.#reopen());
    };
    this.#reopening = clock.after((this.#failed.waitMs ?? 0) + bounds.upstreamReopenMs, retry).unref();
  }

  /** Counts a connection that was lost after `servedMs`. A call that may have caused it must not make others wait. */
  #countLoss({ requests }: Open, what: string, servedMs: number): void {
    const reason = `${this.#options.name} ${what}`;
    if (servedMs >= LASTED_MS) this.#failed.lasted();
    if (requests === 0) this.#failed.add(reason);
    // The next start does not wait.
    else this.#failed.reason = reason;
  }

  async #stop(): Promise<void> {
    const open = this.#current;
    this.#current = undefined;
    this.#failed.lasted();
    await open?.connection.close();
  }
}

const OWN_FAULTS: ReadonlySet<ErrorCode> = new Set(["no_descriptors", "check_failed"]);

export interface UpstreamHealth {
  readonly state: "idle" | "starting" | "running" | "failed";
  readonly starts: number;
  readonly requests: number;
  /** The last failure; safe to show. */
  readonly failure?: string;
  /** Milliseconds since the epoch: no retry before then. */
  readonly retryAt?: number;
  /** Details of the running connection, such as `2026-07-28`. */
  readonly protocolVersion?: string;
  readonly server?: { readonly name: string; readonly version: string };
  /** Kinds of malformed messages, such as "answers with `result: null`", and how often each occurred. */
  readonly deviations?: readonly { readonly what: string; readonly count: number }[];
}

function healthOf(
  connection: UpstreamConnection | undefined,
  starts: { readonly failed: FailedStarts; readonly count: number; readonly isOneUnderWay: boolean },
  requests: number,
): UpstreamHealth {
  const { reason, waitMs } = starts.failed;
  const unconnected = starts.isOneUnderWay ? "starting" : reason === undefined ? "idle" : "failed";
  const server = connection?.serverInfo;
  return {
    state: connection ? "running" : unconnected,
    starts: starts.count,
    requests,
    ...(reason !== undefined && { failure: reason }),
    // For people, so by the system clock.
    // oxlint-disable-next-line no-restricted-properties
    ...(!connection && waitMs !== undefined && { retryAt: Math.ceil(Date.now() + waitMs) }),
    ...(connection && { protocolVersion: connection.protocolVersion }),
    ...(server && { server: { name: server.name, version: server.version } }),
  };
}

type Probed = Pick<UpstreamConnection, "received" | "isResponsive">;

/**
 * Detects an unresponsive upstream: a stopped process, or one in an endless loop, still runs. It is pinged once a call
 * was abandoned and nothing has arrived since a request was sent; any message proves that it is alive, however long a
 * call takes.
 */
export class Liveness {
  /** The start of its silence while a request waits, by `clock`. */
  since = 0;
  readonly #connection: Probed;
  readonly #pingMs: number;
  /** The value of `received` at the start of the longest waiting request; NONE while none waits. */
  #receivedBefore = NONE;
  #isPinging = false;

  constructor(connection: Probed, pingMs: number) {
    this.#connection = connection;
    this.#pingMs = pingMs;
  }

  began(): void {
    const { received: heard } = this.#connection;
    if (heard === this.#receivedBefore) return;
    this.#receivedBefore = heard;
    this.since = clock.now();
  }

  /** A request has ended, other than by being abandoned. */
  ended(): void {
    this.#receivedBefore = NONE;
  }

  /** A request has failed. Resolves with true, only once, if the server turns out to be unresponsive. */
  async isUnresponsive(error: unknown): Promise<boolean> {
    if (!isAbandoned(error)) this.ended();
    if (this.#isPinging || !this.#isSilent()) return false;
    this.#isPinging = true;
    if (!(await this.#connection.isResponsive(this.#pingMs)) && this.#isSilent()) return true;
    this.#isPinging = false;
    return false;
  }

  #isSilent(): boolean {
    return this.#connection.received === this.#receivedBefore && clock.now() - this.since >= this.#pingMs;
  }
}

const NONE = -1;

/** True when nothing waits for the answer any more. */
function isAbandoned(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "cancelled" || error.code === "upstream_timeout");
}

/** The backoff after failed starts. After the first failure, the next start may begin immediately: most succeed. */
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
    const previous = this.#count++;
    const waitMs = previous === 0 ? 0 : Math.min(upstreamBackoffMs * 2 ** (previous - 1), upstreamBackoffMaxMs);
    this.#notBefore = clock.now() + waitMs;
  }

  lasted(): void {
    this.#count = 0;
  }

  forget(): void {
    this.#count = 0;
    this.reason = undefined;
    this.#notBefore = 0;
  }
}

/** Reports when something has been idle for a while, with a single timer. Keeps no process alive. */
class IdleTimer {
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
    this.#timer ??= this.#schedule(this.#ms);
  }

  stop(): void {
    this.#timer?.clear();
  }

  #schedule(ms: number): Timer {
    const check = (): void => {
      this.#timer = undefined;
      const leftMs = this.usedAt + this.#ms - clock.now();
      if (this.#isInUse() || leftMs > 0) this.#timer = this.#schedule(Math.max(leftMs, MIN_DELAY_MS));
      else this.#onIdle();
    };
    return clock.after(ms, check).unref();
  }
}

const MIN_DELAY_MS = 1_000;
