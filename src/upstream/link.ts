import { BerthError } from "../errors.ts";
import type { Closed, UpstreamConnection } from "./connection.ts";
import { UpstreamError } from "./upstream-error.ts";

export interface LinkLimits {
  /** After which a connection that nobody uses is ended; it is made again on demand. */
  readonly upstreamIdleMs: number;
  /** Requests at once on one connection. */
  readonly upstreamRequests: number;
  /** Between a failed start and the next: the first one, and the longest. Each is twice the one before. */
  readonly upstreamBackoffMs: number;
  readonly upstreamBackoffMaxMs: number;
}

export interface LinkHealth {
  readonly state: "idle" | "starting" | "running" | "failed";
  /** Starts so far. */
  readonly starts: number;
  readonly requests: number;
  /** Why it failed last; safe to show. */
  readonly failure?: string;
  /** Milliseconds since the epoch: before then nothing is tried again. */
  readonly retryAt?: number;
  /** `MODERN 2026-07-28`-like facts of the running connection. */
  readonly protocolVersion?: string;
  readonly server?: { readonly name: string; readonly version: string };
}

export interface LinkOptions {
  readonly name: string;
  readonly limits: LinkLimits;
  readonly open: (signal: AbortSignal) => Promise<UpstreamConnection>;
  /** Makes room for one more connection before it is opened, and gives what its end has to call. Rejects where there is none. */
  readonly takePlace?: (() => Promise<() => void>) | undefined;
  /** Runs before the first request on each connection. A rejection ends the connection. */
  readonly onOpen?: (connection: UpstreamConnection) => Promise<void>;
  /** A connection that was running has ended by itself. */
  readonly onLost?: (closed: Closed) => void;
  /** It could not be made; whoever waits for it hears of it, too. */
  readonly onFailed?: (error: unknown) => void;
}

interface Open {
  readonly connection: UpstreamConnection;
  /** Under way on it. */
  requests: number;
}

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
  #failures = 0;
  #failure: string | undefined;
  #notBefore = 0;
  #usedAt = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  /** The end of a connection that nobody used; another one may be made meanwhile. */
  #stopping: Promise<void> | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Gives `work` the connection. Rejects as `work` does, or with why there is no connection. */
  async use<T>(work: (connection: UpstreamConnection) => Promise<T>): Promise<T> {
    const { name, limits } = this.#options;
    if (this.#requests >= limits.upstreamRequests) {
      throw new UpstreamError("upstream_busy", `${name} has ${limits.upstreamRequests} requests under way`);
    }
    this.#requests++;
    let open: Open | undefined;
    try {
      open = this.#current ?? (await this.#connected());
      open.requests++;
      return await work(open.connection);
    } finally {
      this.#requests--;
      if (open && --open.requests === 0 && open !== this.#current && this.#retired.has(open)) this.#end(open);
      this.#usedAt = Date.now();
      this.#idleTimer ??= this.#stopWhenIdle(limits.upstreamIdleMs);
    }
  }

  /** Gives `work` the connection if there is one, beside all requests; nothing is started for it. */
  async peek(work: (connection: UpstreamConnection) => Promise<void>): Promise<void> {
    const open = this.#current ?? (await this.#opening?.catch(() => undefined));
    if (open) await work(open.connection);
  }

  get health(): LinkHealth {
    const connection = this.#current?.connection;
    const state = connection ? "running" : this.#opening ? "starting" : this.#failure === undefined ? "idle" : "failed";
    const server = connection?.serverInfo;
    return {
      state,
      starts: this.#starts,
      requests: this.#requests,
      ...(this.#failure !== undefined && { failure: this.#failure }),
      ...(!connection && this.#notBefore > Date.now() && { retryAt: this.#notBefore }),
      ...(connection && { protocolVersion: connection.protocolVersion }),
      ...(server && { server: { name: server.name, version: server.version } }),
    };
  }

  /** Whoever comes from now on gets a new connection, and at once; requests under way keep the one that they have. */
  renew(): void {
    this.#renewals++;
    this.#failures = 0;
    this.#failure = undefined;
    this.#notBefore = 0;
    const open = this.#current;
    this.#current = undefined;
    if (!open) return;
    this.#retired.add(open);
    if (open.requests === 0) this.#end(open);
  }

  /** When it was used last, in milliseconds since the epoch. */
  get usedAt(): number {
    return this.#usedAt;
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
    clearTimeout(this.#idleTimer);
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
    const waitMs = this.#notBefore - Date.now();
    if (waitMs > 0 && !this.#opening) {
      const seconds = Math.ceil(waitMs / 1000);
      const detail = `${this.#failure ?? this.#options.name}; the next try is in ${seconds} s`;
      return Promise.reject(new UpstreamError("upstream_not_started", detail));
    }
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #open(): Promise<Open> {
    for (;;) {
      const renewals = this.#renewals;
      const connection = await this.#openOnce();
      if (renewals === this.#renewals) {
        this.#failure = undefined;
        this.#current = { connection, requests: 0 };
        return this.#current;
      }
      await connection.close();
    }
  }

  async #openOnce(): Promise<UpstreamConnection> {
    const { open, onOpen, takePlace } = this.#options;
    // That there is no room is no failed start: the next one may try at once.
    const leave = await takePlace?.();
    this.#starts++;
    const startedAt = Date.now();
    try {
      const opening = open(this.#ending.signal);
      if (leave) opening.catch(leave);
      const connection = await opening;
      if (leave) void connection.closed.then(leave);
      void connection.closed.then((closed) => this.#lost(connection, closed, startedAt));
      try {
        await onOpen?.(connection);
      } catch (error) {
        await connection.close();
        throw error;
      }
      return connection;
    } catch (error) {
      this.#backOff(detailOf(error));
      this.#options.onFailed?.(error);
      throw error;
    }
  }

  #lost(connection: UpstreamConnection, closed: Closed, startedAt: number): void {
    if (this.#current?.connection !== connection) return;
    this.#current = undefined;
    if (closed.expected) return;
    if (Date.now() - startedAt >= LASTED_MS) this.#failures = 0;
    this.#backOff(`${this.#options.name} ${closed.reason}`);
    this.#options.onLost?.(closed);
  }

  /** The first failure lets the next call try at once: most servers that end come back. */
  #backOff(failure: string): void {
    const { upstreamBackoffMs, upstreamBackoffMaxMs } = this.#options.limits;
    this.#failure = failure;
    const waits = this.#failures++;
    const waitMs = waits === 0 ? 0 : Math.min(upstreamBackoffMs * 2 ** (waits - 1), upstreamBackoffMaxMs);
    this.#notBefore = Date.now() + waitMs;
  }

  #stopWhenIdle(ms: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#idleTimer = undefined;
      const leftMs = this.#usedAt + this.#options.limits.upstreamIdleMs - Date.now();
      if (this.#requests > 0 || leftMs > 0) this.#idleTimer = this.#stopWhenIdle(Math.max(leftMs, 1_000));
      else this.#stopping = this.#stop();
    }, ms);
    timer.unref();
    return timer;
  }

  async #stop(): Promise<void> {
    const open = this.#current;
    this.#current = undefined;
    this.#failures = 0;
    await open?.connection.close();
  }
}

function detailOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
