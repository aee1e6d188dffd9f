import { clock } from "../lib/clock.ts";
import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { setNiceness } from "../processes/niceness.ts";
import { processorMsOf, residentMbOf, treeOf, useOf } from "../processes/process-tree.ts";
import { heldMbMax } from "./executor-limits.ts";
import type { GuestFailure, LoadOutcome, TriedProgram } from "./executor.ts";
import { closed, failure, guestStack, loadFailed } from "./failures.ts";
import { readLog } from "./guest-log.ts";
import { StrayFrames, type GuestProcess } from "./guest-process.ts";
import type { GuestStarter } from "./guest-starter.ts";
import { toGuest, toHost } from "./guest/wire.mts";
import { stackWhenStopped } from "./stopped-at.ts";

export const loadBounds = fixed({
  /** The CPU time of a definition's top level, which is loaded on trial when the definition is published. */
  loadMs: 2_000,
  /** Time after which the trial is abandoned. */
  loadElapsedMs: 10_000,
});

export type LoadTrialLimits = Pick<Limits, "outputBytes" | "guestFrameBytes" | "guestMemoryMb">;

/** Nobody calls a program that is only tried: calls go first. */
const NICENESS = 3;
/** For all tenants together; each has one at a time. */
const TRIALS_MAX = 2;
const LOOK_MS = 50;
/**
 * A call id that no call has: asking the program for nothing makes it answer after it has reported all that loading
 * left behind.
 */
const ASKED = 1;

/** Loads programs to see whether they load, each in a process of its own that carries out no call. */
export class LoadTrials {
  readonly #starter: GuestStarter;
  readonly #takeSpare: () => GuestProcess;
  readonly #limits: LoadTrialLimits;
  readonly #turns = new FairSemaphore(TRIALS_MAX, Infinity, () => 1);
  readonly #running = new Set<{ readonly tenant: string; readonly process: ReturnType<GuestStarter["start"]> }>();
  #isClosed = false;

  constructor(starter: GuestStarter, takeSpare: () => GuestProcess, limits: LoadTrialLimits) {
    this.#starter = starter;
    this.#takeSpare = takeSpare;
    this.#limits = limits;
  }

  /** Never rejects. */
  async load(program: TriedProgram): Promise<LoadOutcome> {
    const { tenant } = program;
    await this.#turns.enter(tenant, () => {});
    try {
      const [code, env] = await Promise.all([program.code(), program.env?.()]);
      return this.#isClosed ? { kind: "unknown" } : await this.#try(program, code, env);
    } catch {
      return { kind: "unknown" };
    } finally {
      this.#turns.leave(tenant);
    }
  }

  endTenant(tenant: string, reason: GuestFailure): void {
    for (const trial of this.#running) if (trial.tenant === tenant) trial.process.kill(reason);
  }

  /** Resolves when nothing of it is alive. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const processes = Array.from(this.#running, ({ process }) => process);
    for (const process of processes) process.kill(closed);
    await Promise.all(processes.map(({ gone }) => gone));
  }

  #try(
    program: TriedProgram,
    code: string | Uint8Array,
    env: Readonly<Record<string, string>> | undefined,
  ): Promise<LoadOutcome> {
    const { loadMs, loadElapsedMs } = loadBounds;
    const { outputBytes, guestFrameBytes, guestMemoryMb } = this.#limits;
    const strays = new StrayFrames();
    let outcome: LoadOutcome | undefined;
    let rejected: GuestFailure | undefined;
    let startedAtMs: number | undefined;
    let looking: NodeJS.Timeout | undefined;
    let isRaised = !program.describes;

    return new Promise((resolve) => {
      const settle = (it: LoadOutcome): void => {
        outcome ??= it;
        process.kill(closed);
      };
      const look = (): void => {
        const pids = process.pid === undefined ? [] : treeOf(process.pid);
        // A spare starts with a lower priority; raising it may take several tries.
        isRaised ||= pids.length > 0 && pids.map((pid) => setNiceness(pid, NICENESS)).every(Boolean);
        if (processorMsOf(pids) - startedAtMs! > loadMs) {
          outcome ??= { kind: "endless", loadMs };
          return process.interrupt(closed);
        }
        if (residentMbOf(pids) > heldMbMax(guestMemoryMb))
          return settle({ kind: "failed", error: failure("memory", "its process ran out of memory and ended") });
        this.#starter.look(process, pids);
        looking = setTimeout(look, LOOK_MS);
      };
      const begin = (): void => {
        startedAtMs = process.pid === undefined ? 0 : processorMsOf(treeOf(process.pid));
        const load = JSON.stringify([
          toGuest.load,
          { outputBytes, frameBytes: guestFrameBytes },
          env,
          null,
          program.describes,
        ]);
        process.send(load, typeof code === "string" ? Buffer.from(code) : code);
        look();
      };
      const onFrame = (frame: readonly unknown[]): void => {
        switch (frame[0]) {
          case toHost.ready:
            if (startedAtMs === undefined) begin();
            return;
          case toHost.loaded:
            process.send(JSON.stringify([toGuest.shape, 0, { export: "", style: "object", params: [] }]));
            process.send(JSON.stringify([toGuest.call, ASKED, 0, {}]));
            return;
          case toHost.loadFailed:
            return settle({ kind: "failed", error: loadFailed(frame, {}) });
          case toHost.described:
            settle(describedIn(frame));
            // The save that waits for the schemas does not wait for the process to end.
            return resolve(outcome!);
          case toHost.failed:
            return settle(rejected ? { kind: "rejected", error: rejected } : { kind: "loaded" });
          case toHost.log:
            rejected ??= rejectionIn(frame);
        }
        const tooMany = strays.count(performance.now());
        if (tooMany) settle({ kind: "failed", error: failure("protocol", `its process ${tooMany}`) });
      };
      const onEnded = (error: GuestFailure): void => {
        clearTimeout(looking);
        waiting.clear();
        this.#running.delete(trial);
        if (outcome?.kind !== "endless") return resolve(outcome ?? endingOf(error, startedAtMs !== undefined));
        resolve(withStack(outcome, program, process.stderr));
      };
      const listener = { onFrame, onEnded };
      // A save waits for the schemas, so it does not wait for a process to start, too.
      const process = program.describes
        ? this.#takeSpare().assign(listener)
        : this.#starter.start(listener, { niceness: NICENESS });
      const trial = { tenant: program.tenant, process };
      this.#running.add(trial);
      const late = (): void => {
        if (startedAtMs === undefined || process.pid === undefined) return settle({ kind: "unknown" });
        const isWaiting = /^[SZ]*$/.test(useOf(treeOf(process.pid)).states);
        settle({ kind: "unfinished", loadElapsedMs, ...(!isWaiting && { lacksTime: true }) });
      };
      const waiting = clock.after(loadElapsedMs, late);
      if (program.describes) begin();
    });
  }
}

function describedIn([, one, other]: readonly unknown[]): LoadOutcome {
  if (typeof one === "string" && typeof other === "string") return { kind: "loaded", described: [one, other] };
  return { kind: "failed", error: failure("protocol", "its process broke the protocol") };
}

async function withStack(outcome: Endless, program: TriedProgram, stderr: string): Promise<Endless> {
  return { ...outcome, stack: guestStack(await stackWhenStopped(program, stderr), {}) };
}

type Endless = Extract<LoadOutcome, { kind: "endless" }>;

/** A process that was killed, or did not start, says nothing about its program. */
function endingOf(error: GuestFailure, hasBegun: boolean): LoadOutcome {
  const isOwn = error.reason === "memory" || error.reason === "protocol" || /exit code/.test(error.message);
  return hasBegun && isOwn ? { kind: "failed", error } : { kind: "unknown" };
}

const REJECTED = "a promise was rejected and nobody handled it: ";

function rejectionIn(frame: readonly unknown[]): GuestFailure | undefined {
  const message = readLog(frame, {})?.message;
  if (typeof message !== "string" || !message.startsWith(REJECTED)) return undefined;
  const stack = guestStack(message.slice(REJECTED.length), {})!;
  return failure("load", stack.split("\n")[0]!, false, stack);
}
