import { setTimeout as after } from "node:timers/promises";
import { clock } from "../lib/clock.ts";
import { BerthError } from "../lib/errors.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { SH } from "../processes/interpreter.ts";
import { withObstacle } from "../processes/sandbox-obstacle.ts";
import {
  filtersSystemCalls,
  findSandboxTools,
  isConclusive,
  findLibraries,
  nobodyForRoot,
  type NoSandbox,
} from "../processes/sandbox.ts";
import { spawnDirectly } from "../processes/spawn/spawn.ts";
import type { Executor } from "./executor.ts";
import { failure } from "./failures.ts";
import { GuestExecutor, type GuestExecutorOptions } from "./guest-executor.ts";
import { GuestProcess } from "./guest-process.ts";
import { toHost } from "./guest/wire.mts";
import { sandboxedLauncher, trustedLauncher, type GuestLauncher, type SandboxParts } from "./launcher.ts";
import { runToEnd } from "./scripts.ts";

/** How long trying the sandbox at startup may take. */
const bounds = fixed({ sandboxTrialMs: 120_000 });

export interface ExecutorOptions extends GuestExecutorOptions {
  readonly mode: "auto" | "sandboxed" | "trusted";
  /** The result of `tryGuests`, if it was started earlier. */
  readonly tried?: Promise<Probe> | undefined;
}

const node = { file: process.execPath, major: Number(process.versions.node.split(".")[0]) };

/** Starts trying the sandbox, which mostly waits for other processes; undefined if none is wanted. */
export function tryGuests({ mode, limits, log }: Pick<ExecutorOptions, "mode" | "limits" | "log">) {
  if (mode === "trusted") return undefined;
  const probe = probeUntilClear({ limits, log });
  // The caller of `openExecutor` gets the rejection.
  probe.catch(() => {});
  return probe;
}

/**
 * Opens the executor, choosing its isolation by a trial. Rejects with `sandbox_unavailable` if `mode` is `sandboxed`
 * and the sandbox does not work here. In both modes it rejects if the sandbox might work but did not within
 * `sandboxTrialMs`: a transient failure never makes guests `trusted`.
 */
export async function openExecutor(options: ExecutorOptions): Promise<Executor> {
  const { mode, limits } = options;
  if (mode === "trusted") {
    const reason = "it is turned off by BERTH_GUESTS=trusted; start Berth with auto or sandboxed";
    return new GuestExecutor(trustedLauncher(node, limits), options, reason);
  }

  const probe = await (options.tried ?? probeUntilClear(options));
  if ("launcher" in probe) {
    if (!filtersSystemCalls) options.log?.warn({ machine: process.arch }, "guests run without a system call filter");
    return new GuestExecutor(probe.launcher, options);
  }
  if (mode === "sandboxed" || probe.isTransient) throw new BerthError("sandbox_unavailable", probe.reason);
  return new GuestExecutor(trustedLauncher(node, limits), options, probe.reason);
}

/** Tries the sandbox once. */
export async function trySandbox(limits: Limits): Promise<{ readonly lacks?: string } | NoSandbox> {
  const probe = await probeSandbox(node, limits);
  return "launcher" in probe ? probe.launcher : probe;
}

/** The first and the longest pause between two trials of the sandbox. */
const RETRY_MS = 100;
const RETRY_MAX_MS = 5_000;

async function probeUntilClear({ limits, log }: Pick<ExecutorOptions, "limits" | "log">): Promise<Probe> {
  const until = performance.now() + bounds.sandboxTrialMs;
  for (let againInMs = RETRY_MS; ; againInMs = Math.min(2 * againInMs, RETRY_MAX_MS)) {
    const probe = await probeSandbox(node, limits);
    if ("launcher" in probe || !probe.isTransient) return probe;
    if (performance.now() + againInMs > until) {
      const advice =
        "make sure that there are enough processes, memory and file descriptors, or run without it: BERTH_GUESTS=trusted";
      return { ...probe, reason: `${probe.reason}, and kept failing for ${bounds.sandboxTrialMs} ms: ${advice}` };
    }
    log?.warn({ reason: probe.reason, againInMs }, "the sandbox does not start yet: no guest runs until it does");
    await after(againInMs);
  }
}

type Probe =
  | { readonly launcher: GuestLauncher }
  /** `isTransient`: a later trial may succeed. */
  | (NoSandbox & { readonly isTransient: boolean });

const PROBE_MS = 10_000;

/** Finds out whether guests and scripts run in the sandbox on this machine, by running them. */
async function probeSandbox(node: { file: string; major: number }, limits: Limits): Promise<Probe> {
  const tools = findSandboxTools();
  if ("reason" in tools) return { ...tools, isTransient: false };
  let libraries: readonly string[];
  try {
    libraries = await findLibraries(node.file);
  } catch (error) {
    return { reason: `the sandbox cannot be tried (${(error as Error).message.split("\n")[0]})`, isTransient: true };
  }
  const asNobody = nobodyForRoot();
  const parts = { ...tools, node: { ...node, libraries } };
  const launcherFor = (variant: Partial<SandboxParts>): GuestLauncher =>
    sandboxedLauncher({ ...parts, ...(asNobody && { scriptUser: asNobody }), proc: true, ...variant }, limits);
  const machine = JSON.stringify(parts);
  const cached = workingVariants.get(machine);
  if (cached) return { launcher: launcherFor(cached) };

  // Root's guests run as nobody if Berth's own files allow it: nobody cannot read files in root's home.
  const users: readonly Partial<SandboxParts>[] = asNobody ? [{ guestUser: asNobody }, {}] : [{}];
  const reduced = filtersSystemCalls ? users.map((user) => ({ ...user, isReduced: true })) : [];
  const guest = await firstWorking([...users, ...reduced], (variant) => guestProblem(launcherFor(variant)));
  if ("problem" in guest) return noSandbox("does not start", guest);
  // Some containers forbid mounting a /proc.
  const folders = [guest.works, { ...guest.works, proc: false }];
  const script = await firstWorking(folders, (variant) => scriptProblem(launcherFor(variant)));
  if ("problem" in script) return noSandbox("does not run scripts", script);
  workingVariants.set(machine, script.works);
  return { launcher: launcherFor(script.works) };
}

/** The variants that work in this process, by the tools of the sandbox: each is tried once. */
const workingVariants = new Map<string, Partial<SandboxParts>>();

interface ProbeFailure {
  readonly problem: string;
  readonly isTransient: boolean;
}

/** The first variant that works, or the failure. A transient failure selects no other: that would confine less. */
async function firstWorking<Variant>(
  variants: readonly Variant[],
  probe: (variant: Variant) => Promise<ProbeFailure | undefined>,
): Promise<{ readonly works: Variant } | ProbeFailure> {
  let failure: ProbeFailure | undefined;
  for (const variant of variants) {
    failure = await probe(variant);
    if (!failure) return { works: variant };
    if (failure.isTransient) break;
  }
  return failure!;
}

function noSandbox(symptom: string, { problem, isTransient: mayPass }: ProbeFailure): Probe {
  return mayPass
    ? { reason: `the sandbox ${symptom} for now (${problem})`, isTransient: mayPass }
    : { reason: withObstacle(`the sandbox ${symptom} here`, problem), problem, isTransient: mayPass };
}

function guestProblem(launcher: GuestLauncher): Promise<ProbeFailure | undefined> {
  return new Promise((resolve) => {
    let isReady = false;
    let isLate = false;
    const end = (): void => guest.kill(failure("evicted", `no guest was ready after ${PROBE_MS} ms`));
    const timer = clock.after(PROBE_MS, () => {
      isLate = true;
      end();
    });
    const limits = { guestFrameBytes: 1024 };
    const guest = new GuestProcess(spawnDirectly, launcher.guest(), limits, {
      onFrame: (frame) => {
        isReady ||= frame[0] === toHost.ready;
        if (isReady) end();
      },
      onEnded: (error) => {
        timer.clear();
        if (isReady) return resolve(undefined);
        const stderr = guest.stderr.trim();
        const isTransient = isLate || !isConclusive({ ...guest.exit!, stderr: stderr });
        resolve({ problem: firstLine(stderr) || error.message, isTransient: isTransient });
      },
    });
  });
}

async function scriptProblem(launcher: GuestLauncher): Promise<ProbeFailure | undefined> {
  const command = launcher.script({ interpreter: SH, argv: ["works"], env: {}, deadlineMs: PROBE_MS });
  const run = runToEnd(spawnDirectly, command, 'echo "$1"', 1024);
  const timer = setTimeout(run.kill, PROBE_MS);
  const { exit, stdout, stderr } = await run.ended;
  clearTimeout(timer);
  if (stdout.toString() === "works\n") return undefined;
  const problem = firstLine(stderr.trim()) || exit.startError?.message || "scripts do not run in it";
  return { problem, isTransient: !isConclusive({ ...exit, stderr: stderr }) };
}

function firstLine(text: string): string {
  return text.split("\n")[0]!;
}
