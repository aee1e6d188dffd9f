import { setTimeout as after } from "node:timers/promises";
import { clock } from "../lib/clock.ts";
import { BerthError } from "../lib/errors.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { SH } from "../processes/interpreter.ts";
import {
  filtersSystemCalls,
  findSandboxTools,
  isVerdict,
  librariesOf,
  nobodyForRoot,
  sandboxAdvice,
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

/** How long the trial of the sandbox at startup may take. */
const bounds = fixed({ sandboxTrialMs: 120_000 });

export interface ExecutorOptions extends GuestExecutorOptions {
  readonly mode: "auto" | "sandboxed" | "trusted";
  /** The trial from `tryGuests`, if it was begun before. */
  readonly tried?: Promise<Probe> | undefined;
}

const node = { file: process.execPath, major: Number(process.versions.node.split(".")[0]) };

/** Begins to try the sandbox, which mostly waits for other processes; undefined where none is wanted. */
export function tryGuests({ mode, limits, log }: Pick<ExecutorOptions, "mode" | "limits" | "log">) {
  if (mode === "trusted") return undefined;
  const tried = probeUntilClear({ limits, log });
  // The caller of `openExecutor` gets the rejection.
  tried.catch(() => {});
  return tried;
}

/**
 * Opens the executor, whose isolation it chooses by trying it. Rejects with `sandbox_unavailable` when `mode` is `sandboxed` and the sandbox does not work here. In both modes it
 * rejects when the sandbox might work, but did not within `sandboxTrialMs`: a passing failure never makes guests
 * `trusted`.
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
  if (mode === "sandboxed" || probe.mayPass) throw new BerthError("sandbox_unavailable", probe.reason);
  return new GuestExecutor(trustedLauncher(node, limits), options, probe.reason);
}

/** The pause between two trials of the sandbox, at first and in the end. */
const AGAIN_AFTER_MS = 100;
const AGAIN_AFTER_MAX_MS = 5_000;

async function probeUntilClear({ limits, log }: Pick<ExecutorOptions, "limits" | "log">): Promise<Probe> {
  const until = performance.now() + bounds.sandboxTrialMs;
  for (let againInMs = AGAIN_AFTER_MS; ; againInMs = Math.min(2 * againInMs, AGAIN_AFTER_MAX_MS)) {
    const probe = await probeSandbox(node, limits);
    if ("launcher" in probe || !probe.mayPass) return probe;
    if (performance.now() + againInMs > until) {
      const advice =
        "make sure that processes, memory and descriptors suffice, or start with BERTH_GUESTS=trusted to do without it";
      return { ...probe, reason: `${probe.reason}, and has not for ${bounds.sandboxTrialMs} ms: ${advice}` };
    }
    log?.warn({ reason: probe.reason, againInMs }, "the sandbox does not start for now: no guest runs until it does");
    await after(againInMs);
  }
}

type Probe =
  | { readonly launcher: GuestLauncher }
  /** `mayPass`: a later trial may succeed. */
  | (NoSandbox & { readonly mayPass: boolean });

const PROBE_MS = 10_000;

/** Finds out whether guests and scripts run in the sandbox on this machine, by running them. */
async function probeSandbox(node: { file: string; major: number }, limits: Limits): Promise<Probe> {
  const tools = findSandboxTools();
  if ("reason" in tools) return { ...tools, mayPass: false };
  let libraries: readonly string[];
  try {
    libraries = await librariesOf(node.file);
  } catch (error) {
    return { reason: `the sandbox cannot be tried (${(error as Error).message.split("\n")[0]})`, mayPass: true };
  }
  const asNobody = nobodyForRoot();
  const parts = { ...tools, node: { ...node, libraries } };
  const launcherOf = (variant: Partial<SandboxParts>): GuestLauncher =>
    sandboxedLauncher({ ...parts, ...(asNobody && { scriptUser: asNobody }), proc: true, ...variant }, limits);
  const machine = JSON.stringify(parts);
  const known = workingVariants.get(machine);
  if (known) return { launcher: launcherOf(known) };

  // Root's guests run as nobody where Berth's own files allow it; nobody cannot read what stands in root's home.
  const users: readonly Partial<SandboxParts>[] = asNobody ? [{ guestUser: asNobody }, {}] : [{}];
  const guest = await firstWorking(users, (variant) => guestProblem(launcherOf(variant)));
  if ("problem" in guest) return noSandbox("does not start", guest);
  // Some containers forbid to mount a /proc.
  const folders = [guest.works, { ...guest.works, proc: false }];
  const script = await firstWorking(folders, (variant) => scriptProblem(launcherOf(variant)));
  if ("problem" in script) return noSandbox("does not run scripts", script);
  workingVariants.set(machine, script.works);
  return { launcher: launcherOf(script.works) };
}

/** The parts that work in this process, by the programs of the sandbox: they are tried once. */
const workingVariants = new Map<string, Partial<SandboxParts>>();

interface Trouble {
  readonly problem: string;
  readonly mayPass: boolean;
}

/**
 * The first variant that works, or what is wrong. A failure that may pass selects no other variant: that would confine
 * less.
 */
async function firstWorking<Variant>(
  variants: readonly Variant[],
  troubleOf: (variant: Variant) => Promise<Trouble | undefined>,
): Promise<{ readonly works: Variant } | Trouble> {
  let trouble: Trouble | undefined;
  for (const variant of variants) {
    trouble = await troubleOf(variant);
    if (!trouble) return { works: variant };
    if (trouble.mayPass) break;
  }
  return trouble!;
}

function noSandbox(what: string, { problem, mayPass }: Trouble): Probe {
  return mayPass
    ? { reason: `the sandbox ${what} for now (${problem})`, mayPass }
    : { reason: `the sandbox ${what} here (${problem}): ${sandboxAdvice}`, mayPass };
}

function guestProblem(launcher: GuestLauncher): Promise<Trouble | undefined> {
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
        const said = guest.stderr.trim();
        const mayPass = isLate || !isVerdict({ ...guest.exit!, said });
        resolve({ problem: firstLine(said) || error.message, mayPass });
      },
    });
  });
}

async function scriptProblem(launcher: GuestLauncher): Promise<Trouble | undefined> {
  const command = launcher.script({ interpreter: SH, argv: ["works"], env: {}, deadlineMs: PROBE_MS });
  const run = runToEnd(spawnDirectly, command, 'echo "$1"', 1024);
  const timer = setTimeout(run.kill, PROBE_MS);
  const { exit, stdout, stderr } = await run.ended;
  clearTimeout(timer);
  if (stdout.toString() === "works\n") return undefined;
  const problem = firstLine(stderr.trim()) || exit.startError?.message || "scripts do not run in it";
  return { problem, mayPass: !isVerdict({ ...exit, said: stderr }) };
}

function firstLine(text: string): string {
  return text.split("\n")[0]!;
}
