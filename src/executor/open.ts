import { setTimeout as after } from "node:timers/promises";
import { BerthError } from "../lib/errors.ts";
import { filtersSystemCalls } from "../processes/sandbox.ts";
import { GuestExecutor, type GuestExecutorOptions } from "./guest-executor.ts";
import { probeSandbox, type Probe } from "./probe.ts";
import { trustedLauncher } from "./trusted.ts";
import type { Executor } from "./executor.ts";

/** Opens the executor: chooses the isolation by trying it. */
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
 * Rejects with `sandbox_unavailable` when `mode` is `sandboxed` and the sandbox does not work here. In both modes it
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
    if (!filtersSystemCalls)
      options.log?.warn({ machine: process.arch }, "guests run without a filter of system calls");
    return new GuestExecutor(probe.launcher, options);
  }
  if (mode === "sandboxed" || probe.mayPass) throw new BerthError("sandbox_unavailable", probe.reason);
  return new GuestExecutor(trustedLauncher(node, limits), options, probe.reason);
}

/** The pause between two trials of the sandbox, at first and in the end. */
const AGAIN_AFTER_MS = 100;
const AGAIN_AFTER_MAX_MS = 5_000;

async function probeUntilClear({ limits, log }: Pick<ExecutorOptions, "limits" | "log">): Promise<Probe> {
  const until = performance.now() + limits.sandboxTrialMs;
  for (let againInMs = AGAIN_AFTER_MS; ; againInMs = Math.min(2 * againInMs, AGAIN_AFTER_MAX_MS)) {
    const probe = await probeSandbox(node, limits);
    if ("launcher" in probe || !probe.mayPass) return probe;
    if (performance.now() + againInMs > until) {
      const advice =
        "see that processes, memory and descriptors are not short, or start with BERTH_GUESTS=trusted to do without";
      return { ...probe, reason: `${probe.reason}, and has not for ${limits.sandboxTrialMs} ms: ${advice}` };
    }
    log?.warn({ reason: probe.reason, againInMs }, "the sandbox does not start for now: no guest runs before it does");
    await after(againInMs);
  }
}
