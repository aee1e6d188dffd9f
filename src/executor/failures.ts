import { isDescriptorShortage } from "../lib/error-mapping.ts";
import { limitVariable, tenantSetting } from "../limits/limits.ts";
import type { Exit } from "../processes/process-group.ts";
import type { FailureReason, GuestFailure, GuestProgram } from "./executor.ts";
import { messageUnitsMax, stackUnitsMax } from "./guest/wire.mts";

/** Every way a call can fail, worded so that a person knows what to do. Only this file words failures. */

export function failure(reason: FailureReason, message: string, retriable = false, stack?: string): GuestFailure {
  return { reason, message, retriable, ...(stack && { stack }) };
}

/** `msPerSecond`: the CPU limit of the tenant's guests, if they were paused for exceeding it. */
export function timedOut(deadlineMs: number, tenant: string, msPerSecond: number | undefined): GuestFailure {
  const message = `it took longer than its deadline of ${deadlineMs} ms`;
  if (msPerSecond === undefined) return failure("timeout", message);
  const limit = `may use ${msPerSecond} ms of CPU time per second`;
  const cause = `the guests of the tenant "${tenant}" ${limit} (${tenantSetting("cpuMsPerSecond")}), and had used it up`;
  return failure("timeout", `${message}: ${cause}`);
}

export function timedOutWaiting(deadlineMs: number): GuestFailure {
  return failure("timeout", `it waited in the queue longer than its deadline of ${deadlineMs} ms`, true);
}

export const cancelled: GuestFailure = failure("cancelled", "the caller cancelled it");

export const closed: GuestFailure = failure("evicted", "the service is shutting down", true);

export const suspended: GuestFailure = failure("evicted", "its tenant is no longer served");

export const folderWithdrawn: GuestFailure = failure("evicted", "a folder of its server was withdrawn", true);

export function outputTooLarge(outputBytes: number): GuestFailure {
  return failure("output", `its result is larger than ${outputBytes} bytes (${limitVariable("outputBytes")})`);
}

/** `limit` describes the limit that was exceeded. */
export function memoryExceeded(heldMb: number, megabytes: number, limit: string): GuestFailure {
  return failure("memory", `it held ${heldMb} MB of memory, more than the ${megabytes} MB that ${limit}`);
}

export function tooBusy(queued: number): GuestFailure {
  return failure("busy", `the queue is full: ${queued} calls are already waiting`, true);
}

export function needsSandbox(tenant: string, reason: string): GuestFailure {
  return failure(
    "crash",
    `the tenant "${tenant}" may run code only in the sandbox, and this Berth has none (${reason}); ` +
      'without a sandbox only the tenant "default" is trusted',
  );
}

/** The failure of a call whose process was ended because of `verdict` on another of its calls. */
export function evictedByNeighbor(verdict: GuestFailure): GuestFailure {
  const offense = describeOffense(verdict);
  return failure("evicted", `its process was ended because another call of the same program ${offense}`, true);
}

function describeOffense({ reason }: GuestFailure): string {
  if (reason === "timeout") return "overran its deadline";
  if (reason === "cancelled") return "was cancelled and did not stop";
  return "broke a limit";
}

/** Describes a process that ended on its own, from its exit and the tail of its stderr. */
export function exitFailure(exit: Exit, stderr: string): GuestFailure {
  if (exit.startError) return startFailed(exit.startError);
  if (isMountFailure(stderr)) return folderNotMounted;
  if (/out of memory|allocation failed|bad_alloc/i.test(stderr)) {
    return failure("memory", `its process ran out of memory and ended (${limitVariable("guestMemoryMb")})`);
  }
  const signal = exit.signal ?? signalFromExitCode(exit.code);
  if (signal === "SIGKILL")
    return failure("crash", "its process was killed, perhaps because this machine ran out of memory");
  return failure("crash", signal ? `its process ended by ${signal}` : `its process ended with exit code ${exit.code}`);
}

/** A program may print the same text, which is harmless. */
export function isMountFailure(stderr: string): boolean {
  return /^bwrap: Can't (?:find source path|bind mount|get type of source)/m.test(stderr);
}

export const folderNotMounted: GuestFailure = failure(
  "load",
  "a folder cannot be mounted for it: the folder vanished, or the user that code runs as may not enter it",
  true,
);

export function startFailed(error: unknown): GuestFailure {
  const { code = "unknown reason" } = error as NodeJS.ErrnoException;
  const reason = isDescriptorShortage(error) ? "descriptors" : "crash";
  return failure(reason, `its process could not be started (${code})`, true);
}

/** Reads the failure out of a `loadFailed` frame. */
export function loadFailed([, message, stack]: readonly unknown[], program: Pick<GuestProgram, "hide">): GuestFailure {
  const text = `its program does not load: ${guestMessage(message, program)}`;
  return failure("load", text, false, guestStack(stack, program));
}

/** Reads the failure out of a `failed` frame. */
export function guestFailed(
  [, , said, message, stack, transient, protocol]: readonly unknown[],
  program: GuestProgram,
): GuestFailure {
  const reason = said === "output" || said === "load" || said === "unwritable" ? said : "thrown";
  const error = failure(reason, guestMessage(message, program), transient === 1, guestStack(stack, program));
  return protocol === 1 ? { ...error, protocol: true } : error;
}

/** A guest's message as it may be shown: truncated, with secrets redacted. */
export function guestMessage(message: unknown, { hide }: Pick<GuestProgram, "hide">): string {
  if (typeof message !== "string") return "the function failed without a message";
  return truncateAndRedact(message, messageUnitsMax, hide);
}

export function guestStack(stack: unknown, { hide }: Pick<GuestProgram, "hide">): string | undefined {
  return typeof stack === "string" ? truncateAndRedact(stack, stackUnitsMax, hide) : undefined;
}

/** Truncates first, to bound the work of redaction; a secret split by the cut is redacted as well. */
function truncateAndRedact(text: string, unitsMax: number, hide: GuestProgram["hide"]): string {
  const cut = text.slice(0, unitsMax);
  return hide ? (hide(cut) as string) : cut;
}

/** The wrapper reports a signal of the inner process as an exit code. */
function signalFromExitCode(code: number | null): string | undefined {
  return {
    132: "SIGILL",
    133: "SIGTRAP",
    134: "SIGABRT",
    135: "SIGBUS",
    137: "SIGKILL",
    139: "SIGSEGV",
    159: "SIGSYS",
  }[code ?? 0];
}
