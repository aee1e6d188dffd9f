import { clock } from "../lib/clock.ts";
import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { setNiceness } from "../processes/niceness.ts";
import { cpuMs, residentMb, processTree, measureCpu } from "../processes/process-tree.ts";
import { guestProcessMemoryMb } from "./executor-limits.ts";
import type { GuestFailure, LoadOutcome, TrialProgram } from "./executor.ts";
import { closed, failure, guestStack, loadFailed } from "./failures.ts";
import { readLog } from "./guest-log.ts";
import { StrayFrames, type GuestProcess } from "./guest-process.ts";
import type { GuestStarter } from "./guest-starter.ts";
import { toGuest, toHost } from "./guest/wire.mts";
import { stackWhenStopped } from "./stopped-at.ts";

export const loadBounds = fixed({
  /** CPU time of a definition's top level, which is loaded on trial when the definition is published. */
  loadMs: 2_000,
  /** Time after which the trial is abandoned. */
  loadElapsedMs: 10_000,
});

export type LoadTrialLimits = Pick<Limits, "outputBytes" | "guestFrameBytes" | "guestMemoryMb">;

/** Trials run at a lower priority than calls. */
const NICENESS = 3;
/** For all tenants together; each tenant has one at a time. */
const TRIALS_MAX = 2;
const POLL_MS = 50;
/** An id that no call has. The program answers this call after it has reported what loading left behind. */
const PROBE_CALL_ID = 1;

/** Loads programs to see whether they load, each in a process of its own that runs no calls. */
export class LoadTrials {
  readonly #starter: GuestStarter;
  readonly #takeSpare: () => GuestProcess;
  readonly #limits: LoadTrialLimits;
  readonly #semaphore = new FairSemaphore(TRIALS_MAX, Infinity, () => 1);
  readonly #running = new Set<{ readonly tenant: string; readonly process: ReturnType<GuestStarter["start"]> }>();
  #isClosed = false;

  constructor(starter: GuestStarter, takeSpare: () => GuestProcess, limits: LoadTrialLimits) {
    this.#starter = starter;
    this.#takeSpare = takeSpare;
    this.#limits = limits;
  }

  /** Never rejects. */
  async load(program: TrialProgram): Promise<LoadOutcome> {
    const { tenant } = program;
    await this.#semaphore.enter(tenant, () => {});
    try {
      const [code, env] = await Promise.all([program.code(), program.env?.()]);
      return this.#isClosed ? { kind: "unknown" } : await this.#try(program, code, env);
    } catch {
      return { kind: "unknown" };
    } finally {
      this.#semaphore.leave(tenant);
    }
  }

  endTenant(tenant: string, reason: GuestFailure): void {
    for (const trial of this.#running) if (trial.tenant === tenant) trial.process.kill(reason);
  }

  /** Resolves when none of its processes is alive. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const processes = Array.from(this.#running, ({ process }) => process);
    for (const process of processes) process.kill(closed);
    await Promise.all(processes.map(({ exited: gone }) => gone));
  }

  #try(
    program: TrialProgram,
    code: string | Uint8Array,
    env: Readonly<Record<string, string>> | undefined,
  ): Promise<LoadOutcome> {
    const { loadMs, loadElapsedMs } = loadBounds;
    const { outputBytes, guestFrameBytes, guestMemoryMb } = this.#limits;
    const strays = new StrayFrames();
    let outcome: LoadOutcome | undefined;
    let rejected: GuestFailure | undefined;
    let startedAtMs: number | undefined;
    let pollTimer: NodeJS.Timeout | undefined;
    let isRaised = !program.describes;

    return new Promise((resolve) => {
      const settle = (result: LoadOutcome): void => {
        outcome ??= result;
        process.kill(closed);
      };
      const poll = (): void => {
        const pids = process.pid === undefined ? [] : processTree(process.pid);
        // A spare starts with a lower priority; raising it may take several tries.
        isRaised ||= pids.length > 0 && pids.map((pid) => setNiceness(pid, NICENESS)).every(Boolean);
        if (cpuMs(pids) - startedAtMs! > loadMs) {
          outcome ??= { kind: "endless", loadMs };
          return process.interrupt(closed);
        }
        if (residentMb(pids) > guestProcessMemoryMb(guestMemoryMb))
          return settle({ kind: "failed", error: failure("memory", "its process ran out of memory and ended") });
        this.#starter.checkScratch(process, pids);
        pollTimer = setTimeout(poll, POLL_MS);
      };
      const begin = (): void => {
        startedAtMs = process.pid === undefined ? 0 : cpuMs(processTree(process.pid));
        const load = JSON.stringify([
          toGuest.load,
          { outputBytes, frameBytes: guestFrameBytes },
          env,
          null,
          program.describes,
        ]);
        process.send(load, typeof code === "string" ? Buffer.from(code) : code);
        poll();
      };
      const onFrame = (frame: readonly unknown[]): void => {
        switch (frame[0]) {
          case toHost.ready:
            if (startedAtMs === undefined) begin();
            return;
          case toHost.loaded:
            process.send(JSON.stringify([toGuest.shape, 0, { export: "", style: "object", params: [] }]));
            process.send(JSON.stringify([toGuest.call, PROBE_CALL_ID, 0, {}]));
            return;
          case toHost.loadFailed:
            return settle({ kind: "failed", error: loadFailed(frame, {}) });
          case toHost.described:
            settle(readDescription(frame));
            // The save that waits for the schemas need not wait for the process to end.
            return resolve(outcome!);
          case toHost.failed:
            return settle(rejected ? { kind: "rejected", error: rejected } : { kind: "loaded" });
          case toHost.log:
            rejected ??= readRejection(frame);
        }
        const tooMany = strays.count(performance.now());
        if (tooMany) settle({ kind: "failed", error: failure("protocol", `its process ${tooMany}`) });
      };
      const onEnded = (error: GuestFailure): void => {
        clearTimeout(pollTimer);
        timeout.clear();
        this.#running.delete(trial);
        if (outcome?.kind !== "endless") return resolve(outcome ?? outcomeAtExit(error, startedAtMs !== undefined));
        resolve(withStack(outcome, program, process.stderr));
      };
      const listener = { onFrame, onEnded };
      // A save waits for the schemas, so it uses a process that has already started.
      const process = program.describes
        ? this.#takeSpare().assign(listener)
        : this.#starter.start(listener, { niceness: NICENESS });
      const trial = { tenant: program.tenant, process };
      this.#running.add(trial);
      const onTimeout = (): void => {
        if (startedAtMs === undefined || process.pid === undefined) return settle({ kind: "unknown" });
        const isWaiting = /^[SZ]*$/.test(measureCpu(processTree(process.pid)).states);
        settle({ kind: "unfinished", loadElapsedMs, ...(!isWaiting && { lacksTime: true }) });
      };
      const timeout = clock.after(loadElapsedMs, onTimeout);
      if (program.describes) begin();
    });
  }
}

function readDescription([, first, second]: readonly unknown[]): LoadOutcome {
  if (typeof first === "string" && typeof second === "string") return { kind: "loaded", described: [first, second] };
  return { kind: "failed", error: failure("protocol", "its process broke the protocol") };
}

async function withStack(outcome: Endless, program: TrialProgram, stderr: string): Promise<Endless> {
  return { ...outcome, stack: guestStack(await stackWhenStopped(program, stderr), {}) };
}

type Endless = Extract<LoadOutcome, { kind: "endless" }>;

/** A process that was killed, or did not start, reveals nothing about its program. */
function outcomeAtExit(error: GuestFailure, hasBegun: boolean): LoadOutcome {
  const isOwn = error.reason === "memory" || error.reason === "protocol" || /exit code/.test(error.message);
  return hasBegun && isOwn ? { kind: "failed", error } : { kind: "unknown" };
}

const REJECTION_PREFIX = "a promise was rejected and nobody handled it: ";

function readRejection(frame: readonly unknown[]): GuestFailure | undefined {
  const message = readLog(frame, {})?.message;
  if (typeof message !== "string" || !message.startsWith(REJECTION_PREFIX)) return undefined;
  const stack = guestStack(message.slice(REJECTION_PREFIX.length), {})!;
  return failure("load", stack.split("\n")[0]!, false, stack);
}
