import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import { printable } from "../../lib/printable.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { HostedUpstream } from "../serving/hosted.ts";

/**
 * Rejects with `server_refused` when the upstream cannot be started. A trial also shows its stderr: only a principal
 * that may change its entry can try it.
 */
export async function start(server: string, hosted: HostedUpstream, isTrial: boolean): Promise<void> {
  try {
    await hosted.upstream.start();
  } catch (error) {
    // Nothing is wrong with an upstream when there is no room for it now, or the check of its messages failed.
    if (!(error instanceof BerthError) || FOR_NOW.has(error.code)) throw error;
    // Without the error's data: it shows a wrong launcher URI, which may hold what clients must not see.
    const said = problem(error.code.replaceAll("_", "-"), error.message);
    const stderr = isTrial && error instanceof UpstreamError ? printable(error.stderr.slice(-STDERR_UNITS_MAX)) : "";
    throw refused(server, [stderr === "" ? said : { ...said, frame: stderr }], error);
  }
}

/** The end of the text says why. */
const STDERR_UNITS_MAX = 1_500;

const FOR_NOW: ReadonlySet<ErrorCode> = new Set(["too_many_processes", "no_descriptors", "check_failed"]);

export function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

export function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
