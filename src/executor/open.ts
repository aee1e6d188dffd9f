import { BerthError } from "../errors.ts";
import { filtersSystemCalls } from "../processes/sandbox.ts";
import { GuestExecutor, type GuestExecutorOptions } from "./guest-executor.ts";
import { probeSandbox } from "./probe.ts";
import { trustedLauncher } from "./trusted.ts";
import type { Executor } from "./executor.ts";

/** Opens the executor: chooses the isolation by trying it. */
export interface ExecutorOptions extends GuestExecutorOptions {
  readonly mode: "auto" | "sandboxed" | "trusted";
}

/** Rejects with `sandbox_unavailable` when `mode` is `sandboxed` and the sandbox does not work here. */
export async function openExecutor(options: ExecutorOptions): Promise<Executor> {
  const { mode, limits } = options;
  const node = { file: process.execPath, major: Number(process.versions.node.split(".")[0]) };
  if (mode === "trusted") {
    const reason = "it is turned off by BERTH_GUESTS=trusted; start Berth with auto or sandboxed";
    return new GuestExecutor(trustedLauncher(node, limits), options, reason);
  }

  const probe = await probeSandbox(node, limits);
  if ("launcher" in probe) {
    if (!filtersSystemCalls)
      options.log?.warn({ machine: process.arch }, "guests run without a filter of system calls");
    return new GuestExecutor(probe.launcher, options);
  }
  if (mode === "sandboxed") throw new BerthError("sandbox_unavailable", probe.reason);
  return new GuestExecutor(trustedLauncher(node, limits), options, probe.reason);
}
