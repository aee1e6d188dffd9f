import type { CancelSignal } from "../lib/cancellation.ts";
import { clock } from "../lib/clock.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { Ticker } from "../lib/ticker.ts";
import type { Limits } from "../limits/limits.ts";
import { CpuFairness } from "../processes/quota/quota.ts";
import { spawnDirectly, type Spawn } from "../processes/spawn/spawn.ts";
import type { MakeFolder } from "../processes/work-folders.ts";
import { sameForAll, type ExecutorTenantLimits } from "./executor-limits.ts";
import type { Executor, GuestCall, GuestFailure, GuestOutcome, GuestProgram } from "./executor.ts";
import { cancelled, closed, folderWithdrawn, needsSandbox, suspended, timedOutWaiting, tooBusy } from "./failures.ts";
import { strayLog, type ExecutorLog } from "./guest-log.ts";
import { GuestStarter, type GuestNetwork } from "./guest-starter.ts";
import type { GuestLauncher } from "./launcher.ts";
import { LoadTrials } from "./load-trials.ts";
import { PendingCall } from "./pending-call.ts";
import { Pool } from "./pool.ts";
import { Scripts } from "./scripts.ts";

export interface GuestExecutorOptions {
  readonly limits: Limits;
  /** The limits of one tenant; by default every tenant has the same. */
  readonly limitsOf?: (tenant: string) => ExecutorTenantLimits;
  /** Starts processes; by default directly. */
  readonly start?: Spawn;
  /** Makes the folders of guests and scripts that run trusted; by default below the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** Where the sockets of guests lead; by default nowhere. */
  readonly network?: GuestNetwork | undefined;
  readonly log?: ExecutorLog;
}

/**
 * The path of a call: may its tenant run here, is it the tenant's turn, then the pool, and the sweep that keeps every
 * deadline. It puts these parts together.
 */
export class GuestExecutor implements Executor {
  readonly isolation: Executor["isolation"];
  readonly reason?: string;
  readonly #limits: Limits;
  readonly #log: ExecutorLog | undefined;
  readonly #limitsOf: (tenant: string) => ExecutorTenantLimits;
  readonly #fairness: CpuFairness;
  readonly #starter: GuestStarter;
  readonly #pool: Pool;
  readonly #scripts: Scripts;
  readonly #trials: LoadTrials;
  readonly #queues = new Map<string, BoundedQueue<PendingCall>>();
  readonly #suspended = new Set<string>();
  /** Which folders servers are given now, by tenant. */
  readonly #isGiven = new Map<string, Parameters<Executor["withdrawFolders"]>[1]>();
  readonly #ticker = new Ticker(() => this.#sweep(clock.now()));
  #inFlight = 0;
  #closing: Promise<void> | undefined;

  constructor(
    launcher: GuestLauncher,
    { limits, limitsOf, start = spawnDirectly, makeFolder, network, log }: GuestExecutorOptions,
    reason?: string,
  ) {
    this.isolation = launcher.isolation;
    if (reason !== undefined) this.reason = reason;
    this.#limits = limits;
    this.#log = log;
    this.#limitsOf = limitsOf ?? (() => sameForAll(limits));
    this.#fairness = new CpuFairness({
      cpuMsPerSecondOf: (tenant) => this.#limitsOf(tenant).cpuMsPerSecond,
    });
    this.#scripts = new Scripts(start, launcher, limits, {
      processesOf: (tenant) => this.#limitsOf(tenant).scriptProcesses,
      fairness: this.#fairness,
      makeFolder,
      network,
    });
    this.#starter = new GuestStarter(start, launcher, limits, { makeFolder, network });
    this.#pool = new Pool(this.#starter, limits, {
      processesOf: (tenant) => this.#limitsOf(tenant).guestProcesses,
      startsPerMinuteOf: (tenant) => this.#limitsOf(tenant).processStartsPerMinute,
      onCallOver: (call) => this.#leave(call),
      onEnded: (program, error, loaded) => this.#report(program, error, loaded),
      onLog: strayLog(limits, log),
      fairness: this.#fairness,
    });
    this.#trials = new LoadTrials(this.#starter, () => this.#pool.takeSpare(), limits);
  }

  call(program: GuestProgram, given: GuestCall): Promise<GuestOutcome> {
    let call!: PendingCall;
    const outcome = new Promise<GuestOutcome>((resolve) => {
      call = new PendingCall(program, given, clock.now(), resolve);
    });
    const refusal = this.#refusal(program) ?? (given.signal?.aborted ? cancelled : undefined);
    if (refusal) {
      call.fail(refusal);
      return outcome;
    }
    if (given.signal) this.#listen(call, given.signal);
    const entered = this.#queueOf(program.tenant).enter(call);
    if (entered === "refused") {
      call.fail(tooBusy(this.#limits.queuedCallsPerTenant));
      return outcome;
    }
    this.#inFlight++;
    this.#ticker.wake();
    if (entered === "started") this.#pool.run(call);
    return outcome;
  }

  async load(program: Parameters<Executor["load"]>[0]): ReturnType<Executor["load"]> {
    return this.#refusal(program) ? { kind: "unknown" } : await this.#trials.load(program);
  }

  async runScript(script: Parameters<Executor["runScript"]>[0]): ReturnType<Executor["runScript"]> {
    const error = this.#refusal(script);
    return error ? { ok: false, error } : await this.#scripts.run(script);
  }

  stats(): ReturnType<Executor["stats"]> {
    return {
      programs: this.#pool.size,
      spares: this.#pool.spares,
      callsInFlight: this.#inFlight + this.#scripts.running,
      started: this.#pool.started + this.#scripts.started,
      killed: this.#pool.killed + this.#scripts.killed,
    };
  }

  async suspend(tenant: string): Promise<void> {
    this.#suspended.add(tenant);
    this.#isGiven.delete(tenant);
    const queue = this.#queues.get(tenant);
    for (const call of queue?.waiting ?? []) this.#unqueue(queue!, call, suspended);
    for (const call of this.#pool.waiting) if (call.program.tenant === tenant) this.#unwait(call, suspended);
    this.#pool.endTenant(tenant, suspended);
    this.#trials.endTenant(tenant, suspended);
    await this.#scripts.endTenant(tenant, suspended);
  }

  resume(tenant: string): void {
    this.#suspended.delete(tenant);
  }

  withdrawFolders(tenant: string, isGiven: Parameters<Executor["withdrawFolders"]>[1]): void {
    this.#isGiven.set(tenant, isGiven);
    const isOver = (user: FolderUser): boolean => user.tenant === tenant && this.#isWithdrawn(user);
    const queue = this.#queues.get(tenant);
    for (const call of queue?.waiting ?? []) if (isOver(call.program)) this.#unqueue(queue!, call, folderWithdrawn);
    for (const call of this.#pool.waiting) if (isOver(call.program)) this.#unwait(call, folderWithdrawn);
    this.#pool.endWhere(isOver, folderWithdrawn);
    this.#scripts.endWhere(isOver, folderWithdrawn);
  }

  #isWithdrawn({ tenant, server = "", folders = [] }: FolderUser): boolean {
    const isGiven = folders.length > 0 ? this.#isGiven.get(tenant) : undefined;
    return isGiven !== undefined && folders.some(({ name }) => !isGiven(server, name));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const queue of this.#queues.values()) for (const call of queue.waiting) this.#unqueue(queue, call, closed);
    for (const call of this.#pool.waiting) this.#unwait(call, closed);
    await Promise.all([this.#pool.close(closed), this.#scripts.close(), this.#trials.close()]);
    await this.#starter.settled();
    this.#ticker.stop();
    this.#fairness.close();
  }

  #refusal(user: FolderUser): GuestFailure | undefined {
    const { tenant } = user;
    if (this.#closing) return closed;
    if (this.#suspended.size > 0 && this.#suspended.has(tenant)) return suspended;
    if (this.reason !== undefined && tenant !== DEFAULT_TENANT) return needsSandbox(tenant, this.reason);
    return this.#isWithdrawn(user) ? folderWithdrawn : undefined;
  }

  #queueOf(tenant: string): BoundedQueue<PendingCall> {
    let queue = this.#queues.get(tenant);
    if (!queue) {
      const { calls: running } = this.#limitsOf(tenant);
      queue = new BoundedQueue({ running, queued: this.#limits.queuedCallsPerTenant });
      this.#queues.set(tenant, queue);
    }
    return queue;
  }

  /** Frees the slot of a call, and starts the next one of its tenant. */
  #leave(call: PendingCall): void {
    this.#inFlight--;
    const next = this.#queues.get(call.program.tenant)?.leave();
    if (next) this.#pool.run(next);
  }

  #listen(call: PendingCall, signal: CancelSignal): void {
    const onAbort = (): void => {
      const queue = this.#queues.get(call.program.tenant);
      if (queue && this.#unqueue(queue, call, cancelled)) return;
      if (this.#unwait(call, cancelled)) return;
      for (const session of this.#pool.sessions) session.cancel(call);
    };
    call.listen(signal, onAbort);
  }

  #unqueue(queue: BoundedQueue<PendingCall>, call: PendingCall, error: GuestFailure): boolean {
    if (!queue.remove(call)) return false;
    this.#inFlight--;
    call.fail(error);
    return true;
  }

  #unwait(call: PendingCall, error: GuestFailure): boolean {
    if (!this.#pool.remove(call)) return false;
    call.fail(error);
    this.#leave(call);
    return true;
  }

  #sweep(now: number): boolean {
    for (const [tenant, queue] of this.#queues) {
      for (const call of queue.waiting) {
        if (now >= call.deadlineAt) this.#unqueue(queue, call, timedOutWaiting(call.given.deadlineMs));
      }
      if (queue.idle) this.#queues.delete(tenant);
    }
    for (const call of this.#pool.waiting) {
      if (now >= call.deadlineAt) this.#unwait(call, timedOutWaiting(call.given.deadlineMs));
    }
    let abandoned = 0;
    for (const session of this.#pool.sessions) {
      session.sweep(now);
      abandoned += session.abandonedCalls;
    }
    return this.#inFlight + abandoned > 0;
  }

  #report(program: GuestProgram, error: GuestFailure, loaded: boolean): void {
    const data = { tenant: program.tenant, bundle: program.bundle, reason: error.reason, loaded };
    if (error.reason === "evicted") this.#log?.debug(data, "a guest process was ended");
    else this.#log?.warn(data, `a guest process ended: ${error.message}`);
  }
}

type FolderUser = Pick<GuestProgram, "tenant" | "server" | "folders">;

interface BoundedQueueLimits {
  readonly running: number;
  readonly queued: number;
}

/**
 * Limits how many jobs one tenant may run at a time and how many may wait behind them, in order. It knows neither
 * processes nor what its jobs are.
 */
export class BoundedQueue<Job> {
  readonly #limits: BoundedQueueLimits;
  readonly #queue = new Set<Job>();
  #running = 0;

  constructor(limits: BoundedQueueLimits) {
    this.#limits = limits;
  }

  get idle(): boolean {
    return this.#running === 0 && this.#queue.size === 0;
  }

  get waiting(): ReadonlySet<Job> {
    return this.#queue;
  }

  /** Takes a slot for the job, or queues it: `refused` if no more may wait. The caller starts it if it has a slot. */
  enter(job: Job): "started" | "queued" | "refused" {
    if (this.#running < this.#limits.running) {
      this.#running++;
      return "started";
    }
    if (this.#queue.size >= this.#limits.queued) return "refused";
    this.#queue.add(job);
    return "queued";
  }

  /** Takes a job out of the queue; false when it was not waiting. */
  remove(job: Job): boolean {
    return this.#queue.delete(job);
  }

  /** Ends a started job, and returns the next one, which may start now. */
  leave(): Job | undefined {
    const [next] = this.#queue;
    if (next === undefined) this.#running--;
    else this.#queue.delete(next);
    return next;
  }
}
