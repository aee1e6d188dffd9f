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
  /** Creates the folders of trusted guests and scripts; by default in the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** The network of guests; none by default. */
  readonly network?: GuestNetwork | undefined;
  readonly log?: ExecutorLog;
}

/**
 * The path of a call: check that its tenant may run code here, queue, then the pool. A periodic sweep enforces all
 * deadlines. This class only connects these parts.
 */
export class GuestExecutor implements Executor {
  readonly isolation: Executor["isolation"];
  readonly reason?: string;
  readonly lacks?: string;
  readonly #limits: Limits;
  readonly #log: ExecutorLog | undefined;
  readonly #tenantLimits: (tenant: string) => ExecutorTenantLimits;
  readonly #fairness: CpuFairness;
  readonly #starter: GuestStarter;
  readonly #pool: Pool;
  readonly #scripts: Scripts;
  readonly #trials: LoadTrials;
  readonly #queues = new Map<string, BoundedQueue<PendingCall>>();
  readonly #suspended = new Set<string>();
  /** Decides whether a folder is currently granted to a server, by tenant. */
  readonly #isGranted = new Map<string, Parameters<Executor["withdrawFolders"]>[1]>();
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
    if (launcher.lacks !== undefined) this.lacks = launcher.lacks;
    this.#limits = limits;
    this.#log = log;
    this.#tenantLimits = limitsOf ?? (() => sameForAll(limits));
    this.#fairness = new CpuFairness({
      cpuMsPerSecond: (tenant) => this.#tenantLimits(tenant).cpuMsPerSecond,
    });
    this.#scripts = new Scripts(start, launcher, limits, {
      maxProcesses: (tenant) => this.#tenantLimits(tenant).scriptProcesses,
      fairness: this.#fairness,
      makeFolder,
      network,
    });
    this.#starter = new GuestStarter(start, launcher, limits, { makeFolder, network });
    this.#pool = new Pool(this.#starter, limits, {
      maxProcesses: (tenant) => this.#tenantLimits(tenant).guestProcesses,
      maxStartsPerMinute: (tenant) => this.#tenantLimits(tenant).processStartsPerMinute,
      onCallOver: (call) => this.#leave(call),
      onEnded: (program, error, loaded) => this.#report(program, error, loaded),
      onLog: strayLog(limits, log),
      fairness: this.#fairness,
    });
    this.#trials = new LoadTrials(this.#starter, () => this.#pool.takeSpare(), limits);
  }

  call(program: GuestProgram, request: GuestCall): Promise<GuestOutcome> {
    let call!: PendingCall;
    const outcome = new Promise<GuestOutcome>((resolve) => {
      call = new PendingCall(program, request, clock.now(), resolve);
    });
    const refusal = this.#refusal(program) ?? (request.signal?.aborted ? cancelled : undefined);
    if (refusal) {
      call.fail(refusal);
      return outcome;
    }
    if (request.signal) this.#listen(call, request.signal);
    const admission = this.#queueFor(program.tenant).enter(call);
    if (admission === "refused") {
      call.fail(tooBusy(this.#limits.queuedCallsPerTenant));
      return outcome;
    }
    this.#inFlight++;
    this.#ticker.wake();
    if (admission === "started") this.#pool.run(call);
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
    this.#isGranted.delete(tenant);
    const queue = this.#queues.get(tenant);
    for (const call of queue?.waiting ?? []) this.#dequeue(queue!, call, suspended);
    for (const call of this.#pool.waiting) if (call.program.tenant === tenant) this.#stopWaiting(call, suspended);
    this.#pool.endTenant(tenant, suspended);
    this.#trials.endTenant(tenant, suspended);
    await this.#scripts.endTenant(tenant, suspended);
  }

  resume(tenant: string): void {
    this.#suspended.delete(tenant);
  }

  withdrawFolders(tenant: string, isGranted: Parameters<Executor["withdrawFolders"]>[1]): void {
    this.#isGranted.set(tenant, isGranted);
    const isAffected = (user: FolderUser): boolean => user.tenant === tenant && this.#isWithdrawn(user);
    const queue = this.#queues.get(tenant);
    for (const call of queue?.waiting ?? []) if (isAffected(call.program)) this.#dequeue(queue!, call, folderWithdrawn);
    for (const call of this.#pool.waiting) if (isAffected(call.program)) this.#stopWaiting(call, folderWithdrawn);
    this.#pool.endWhere(isAffected, folderWithdrawn);
    this.#scripts.endWhere(isAffected, folderWithdrawn);
  }

  #isWithdrawn({ tenant, server = "", folders = [] }: FolderUser): boolean {
    const isGranted = folders.length > 0 ? this.#isGranted.get(tenant) : undefined;
    return isGranted !== undefined && folders.some(({ name }) => !isGranted(server, name));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const queue of this.#queues.values()) for (const call of queue.waiting) this.#dequeue(queue, call, closed);
    for (const call of this.#pool.waiting) this.#stopWaiting(call, closed);
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

  #queueFor(tenant: string): BoundedQueue<PendingCall> {
    let queue = this.#queues.get(tenant);
    if (!queue) {
      const { calls: running } = this.#tenantLimits(tenant);
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
      if (queue && this.#dequeue(queue, call, cancelled)) return;
      if (this.#stopWaiting(call, cancelled)) return;
      for (const session of this.#pool.sessions) session.cancel(call);
    };
    call.listen(signal, onAbort);
  }

  #dequeue(queue: BoundedQueue<PendingCall>, call: PendingCall, error: GuestFailure): boolean {
    if (!queue.remove(call)) return false;
    this.#inFlight--;
    call.fail(error);
    return true;
  }

  #stopWaiting(call: PendingCall, error: GuestFailure): boolean {
    if (!this.#pool.remove(call)) return false;
    call.fail(error);
    this.#leave(call);
    return true;
  }

  #sweep(now: number): boolean {
    for (const [tenant, queue] of this.#queues) {
      for (const call of queue.waiting) {
        if (now >= call.deadlineAt) this.#dequeue(queue, call, timedOutWaiting(call.request.deadlineMs));
      }
      if (queue.idle) this.#queues.delete(tenant);
    }
    for (const call of this.#pool.waiting) {
      if (now >= call.deadlineAt) this.#stopWaiting(call, timedOutWaiting(call.request.deadlineMs));
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
 * Limits how many jobs of one tenant run at a time and how many more may wait, in FIFO order. It knows neither
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

  /** Takes a slot for the job, which the caller then starts, or queues it; `refused` if the queue is full. */
  enter(job: Job): "started" | "queued" | "refused" {
    if (this.#running < this.#limits.running) {
      this.#running++;
      return "started";
    }
    if (this.#queue.size >= this.#limits.queued) return "refused";
    this.#queue.add(job);
    return "queued";
  }

  /** Removes a job from the queue; false if it was not waiting. */
  remove(job: Job): boolean {
    return this.#queue.delete(job);
  }

  /** Ends a running job, and returns the next one, which the caller starts. */
  leave(): Job | undefined {
    const [next] = this.#queue;
    if (next === undefined) this.#running--;
    else this.#queue.delete(next);
    return next;
  }
}
