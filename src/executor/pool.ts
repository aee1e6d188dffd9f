import { BoundedMap } from "../lib/bounded-map.ts";
import { clock, type Timer } from "../lib/clock.ts";
import { MessageBudgets, unfinishedGuest } from "../lib/message-budget.ts";
import { ReadingTime } from "../lib/reading-time.ts";
import { TokenBuckets } from "../lib/token-buckets.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { CpuFairness } from "../processes/quota/quota.ts";
import { guestProcessMemoryMb } from "./executor-limits.ts";
import type { GuestFailure, GuestProgram } from "./executor.ts";
import { failure, memoryExceeded, timedOut } from "./failures.ts";
import type { LogSink } from "./guest-log.ts";
import type { GuestProcess, GuestShare } from "./guest-process.ts";
import type { GuestStarter } from "./guest-starter.ts";
import type { PendingCall } from "./pending-call.ts";
import { GuestSession } from "./session.ts";
import { Spares } from "./spares.ts";

interface PoolOwner {
  /** How many processes one tenant may have. */
  maxProcesses(tenant: string): number;
  /** How many may be started for one tenant in a minute; 0 for no limit. */
  maxStartsPerMinute(tenant: string): number;
  onCallOver(call: PendingCall): void;
  onEnded(program: GuestProgram, failure: GuestFailure, loaded: boolean): void;
  onLog: LogSink;
  readonly fairness: CpuFairness;
}

const IDLE_CHECK_MAX_MS = 10_000;
const ADMIT_MAX_MS = 100;

/**
 * Assigns processes to programs. It owns starting them lazily, the calls that wait for a slot, and the end of idle
 * processes. A process serves one program of one tenant from its first frame to its end. It knows neither deadlines nor
 * the queue of calls.
 */
export class Pool {
  readonly #limits: Limits;
  readonly #owner: PoolOwner;
  readonly #starter: GuestStarter;
  readonly #spares: Spares;
  readonly #backoff = new Backoff();
  readonly #starts: TokenBuckets;
  readonly #unfinished: MessageBudgets<"unfinishedGuestBytes">;
  #admitTimer: Timer | undefined;
  readonly #sessions = new Map<string, GuestSession>();
  /** The sessions in `#sessions` and those that are ending. */
  readonly #live = new Set<GuestSession>();
  /**
   * Sessions that accept no further calls and end with their last call, at most one per program, with the reason.
   * Abandoned calls do not count.
   */
  readonly #retired = new Map<GuestSession, string>();
  /** Calls that wait until the process of another program becomes idle. */
  readonly #waiting = new Set<PendingCall>();
  readonly #shares = new Map<string, GuestShare>();
  readonly #idleTimer: NodeJS.Timeout;
  killed = 0;

  constructor(starter: GuestStarter, limits: Limits, owner: PoolOwner) {
    this.#starter = starter;
    this.#limits = limits;
    this.#owner = owner;
    this.#unfinished = new MessageBudgets(unfinishedGuest, limits);
    this.#starts = new TokenBuckets((tenant) => ({
      perMinute: owner.maxStartsPerMinute(tenant),
      burst: owner.maxProcesses(tenant),
    }));
    this.#spares = new Spares(starter, limits.guestSpareProcesses);
    this.#spares.fill();
    const checkMs = Math.max(10, Math.min(limits.guestIdleMs / 4, IDLE_CHECK_MAX_MS));
    this.#idleTimer = setInterval(() => this.#endIdle(), checkMs);
    this.#idleTimer.unref();
  }

  get sessions(): ReadonlySet<GuestSession> {
    return this.#live;
  }

  get size(): number {
    return this.#sessions.size;
  }

  get waiting(): ReadonlySet<PendingCall> {
    return this.#waiting;
  }

  get spares(): number {
    return this.#spares.size;
  }

  get started(): number {
    return this.#spares.started;
  }

  /** A blank process for other purposes than calls. */
  takeSpare(): GuestProcess {
    return this.#spares.take();
  }

  /** Runs the call in its program's process, now or when a slot is free. */
  run(call: PendingCall): void {
    const { program } = call;
    const key = poolKey(program);
    const session = this.#sessions.get(key);
    if (session && !session.ending) return session.run(call);

    const refusal = this.#backoff.refusal(key, performance.now());
    if (refusal) {
      call.fail(refusal);
      this.#owner.onCallOver(call);
      return;
    }
    const { startsInMs, replaced: instead } = this.#takeSlot(program.tenant);
    if (startsInMs === 0) {
      if (instead) this.#end(instead, "its slot was needed for another program");
      this.#start(program).run(call);
      return;
    }
    this.#waiting.add(call);
    if (startsInMs === Infinity) return;
    this.#owner.fairness.noteDelayed(program.tenant);
    // A call of another tenant may be due sooner than this one.
    this.#admitTimer ??= clock.after(Math.min(startsInMs, ADMIT_MAX_MS), this.#admitLater).unref();
  }

  /** Removes a call that has no process yet; false when it has one. */
  remove(call: PendingCall): boolean {
    return this.#waiting.delete(call);
  }

  /** Ends every process of a tenant. */
  endTenant(tenant: string, reason: GuestFailure): void {
    for (const session of this.#live) if (session.program.tenant === tenant) session.kill(reason);
    this.#shares.delete(tenant);
  }

  /** Ends the processes of some programs. */
  endWhere(isOver: (program: GuestProgram) => boolean, reason: GuestFailure): void {
    for (const session of this.#live) if (isOver(session.program)) session.kill(reason);
  }

  /** Ends everything; resolves when nothing is alive. */
  async close(reason: GuestFailure): Promise<void> {
    clearInterval(this.#idleTimer);
    this.#admitTimer?.clear();
    for (const session of this.#live) session.kill(reason);
    await this.#spares.close(reason);
  }

  /**
   * Decides whether one more process may start, within the limit of all tenants, the limit of its tenant, and the
   * tenant's starts per minute. At a process limit, the longest idle process is replaced.
   */
  #takeSlot(tenant: string): ProcessSlot {
    const { guestProcesses } = this.#limits;
    const tenantMax = this.#owner.maxProcesses(tenant);
    const isFull = tenantMax < guestProcesses && this.#countProcesses(tenant) >= tenantMax;
    const needsOther = isFull || this.#sessions.size >= guestProcesses;
    const replaced = needsOther ? this.#longestIdle(isFull ? tenant : undefined) : undefined;
    if (needsOther && !replaced) return NO_SLOT;
    const startsInMs = this.#starts.take(tenant, clock.now());
    return replaced ? { startsInMs, replaced: replaced } : { startsInMs };
  }

  #countProcesses(tenant: string): number {
    let count = 0;
    for (const { program } of this.#sessions.values()) if (program.tenant === tenant) count += 1;
    return count;
  }

  /** The longest idle session of one tenant, or of any; undefined if all are busy. */
  #longestIdle(tenant?: string): GuestSession | undefined {
    let oldest: GuestSession | undefined;
    for (const session of this.#sessions.values()) {
      if (tenant !== undefined && session.program.tenant !== tenant) continue;
      if (session.callsInFlight === 0 && (!oldest || session.lastUsedAt < oldest.lastUsedAt)) oldest = session;
    }
    return oldest;
  }

  #start(program: GuestProgram): GuestSession {
    const session = new GuestSession(
      program,
      this.#spares.take(program),
      this.#shareFor(program.tenant),
      this.#limits,
      {
        onCallOver: (call) => {
          this.#owner.onCallOver(call);
          if (session.callsInFlight > 0) return;
          const why = this.#retired.get(session);
          if (why !== undefined) this.#end(session, why);
          if (this.#waiting.size > 0) this.#admit();
        },
        onRetired: (session, why) => this.#retire(session, why),
        onEnded: (session, error, loaded) => this.#onEnded(session, error, loaded),
        onLog: this.#owner.onLog,
        timedOut: (deadlineMs) =>
          timedOut(deadlineMs, program.tenant, this.#owner.fairness.exceededMsPerSecond(program.tenant)),
      },
    );
    this.#sessions.set(poolKey(program), session);
    this.#live.add(session);
    const { guestMemoryMb } = this.#limits;
    const megabytes = guestProcessMemoryMb(guestMemoryMb);
    const onExceeded = (heldMb: number): void =>
      session.kill(
        memoryExceeded(heldMb, megabytes, `${limitVariable("guestMemoryMb")}=${guestMemoryMb} leaves to its process`),
      );
    this.#owner.fairness.add(program.tenant, session, {
      isNice: true,
      memory: { megabytes, onExceeded },
      onPoll: (pids) => this.#starter.checkScratch(session, pids),
    });
    return session;
  }

  #onEnded(session: GuestSession, error: GuestFailure, loaded: boolean): void {
    const { program } = session;
    this.killed++;
    this.#live.delete(session);
    this.#owner.fairness.delete(session);
    this.#detach(session);
    this.#retired.delete(session);
    // The program is not to blame.
    const isBlameless = error.reason === "evicted" || error.reason === "descriptors";
    if (!isBlameless) this.#backoff.onEnded(poolKey(program), performance.now(), error, loaded);
    this.#owner.onEnded(program, error, loaded);
    this.#admit();
  }

  #shareFor(tenant: string): GuestShare {
    const existing = this.#shares.get(tenant);
    if (existing) return existing;
    const created = { readingTime: new ReadingTime(), frames: this.#unfinished.of(tenant) };
    this.#shares.set(tenant, created);
    return created;
  }

  /** Gives later calls a new process. */
  #detach(session: GuestSession): void {
    const key = poolKey(session.program);
    if (this.#sessions.get(key) === session) this.#sessions.delete(key);
  }

  /** Lets the calls in the process finish; an earlier session of the program that is still finishing is ended now. */
  #retire(session: GuestSession, why: string): void {
    if (this.#retired.has(session)) return;
    const key = poolKey(session.program);
    for (const [earlier, reason] of this.#retired) if (poolKey(earlier.program) === key) this.#end(earlier, reason);
    this.#detach(session);
    if (session.callsInFlight === 0) this.#end(session, why);
    else this.#retired.set(session, why);
  }

  #admit(): void {
    const tenantsWithoutSlot = new Set<string>();
    // Calls that have to keep waiting are added behind the others.
    const waiting = Array.from(this.#waiting);
    for (const call of waiting) {
      const { tenant } = call.program;
      if (tenantsWithoutSlot.has(tenant)) continue;
      this.#waiting.delete(call);
      this.run(call);
      if (this.#waiting.has(call)) tenantsWithoutSlot.add(tenant);
    }
  }

  readonly #admitLater = (): void => {
    this.#admitTimer = undefined;
    this.#admit();
  };

  #endIdle(): void {
    const since = performance.now() - this.#limits.guestIdleMs;
    for (const session of this.#sessions.values()) {
      if (session.callsInFlight === 0 && session.lastUsedAt < since) this.#end(session, "it was idle for too long");
    }
  }

  #end(session: GuestSession, why: string): void {
    this.#detach(session);
    session.kill(failure("evicted", `its process was ended: ${why}`, true));
  }
}

/** Neither a tenant nor a CID contains a NUL character, so no two programs share a key. */
function poolKey({ tenant, bundle, realm }: GuestProgram): string {
  return realm === undefined ? `${tenant}\0${bundle}` : `${tenant}\0${bundle}\0${realm}`;
}

interface ProcessSlot {
  /** 0: now, and the slot is taken. `Infinity`: when another process becomes idle. */
  readonly startsInMs: number;
  /** The session whose slot it takes: its process must end first. */
  readonly replaced?: GuestSession;
}

const NO_SLOT: ProcessSlot = { startsInMs: Infinity };

const LOAD_PAUSE_MS = 100;
const LOAD_PAUSE_MAX_MS = 30_000;
const START_BURST = 8;
const START_EVERY_MS = 500;
/** Programs whose history is stored; the oldest are dropped first. */
const PROGRAMS_MAX = 4_096;

interface Record {
  loadFailures: number;
  pausedUntil: number;
  /** When the bucket of free starts is full again. */
  refilledAt: number;
  error: GuestFailure;
}

/**
 * Keeps a program that ends repeatedly from being restarted in a hot loop. Each failure to load doubles the pause; a
 * process that ended while it worked may be replaced a few times immediately, then twice a second.
 */
export class Backoff {
  readonly #records = new BoundedMap<string, Record>(PROGRAMS_MAX);

  /** Why the program may not be started at `now`. */
  refusal(key: string, now: number): GuestFailure | undefined {
    const record = this.#records.get(key);
    if (!record || now >= record.pausedUntil) return undefined;
    const again = Math.ceil(record.pausedUntil - now);
    return {
      ...record.error,
      message: `${record.error.message}; it is not started again for ${again} ms`,
      retriable: true,
    };
  }

  onEnded(key: string, now: number, error: GuestFailure, loaded: boolean): void {
    const record = this.#records.get(key) ?? { loadFailures: 0, pausedUntil: 0, refilledAt: now, error };
    record.error = error;
    this.#records.set(key, record);
    if (loaded) {
      record.loadFailures = 0;
      record.refilledAt = Math.max(record.refilledAt, now) + START_EVERY_MS;
      record.pausedUntil = record.refilledAt - START_BURST * START_EVERY_MS;
    } else {
      record.pausedUntil = now + Math.min(LOAD_PAUSE_MS * 2 ** record.loadFailures++, LOAD_PAUSE_MAX_MS);
    }
  }
}
