import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import { printable } from "../../lib/printable.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { HostedUpstream } from "./hosted.ts";

/**
 * Rejects with `server_refused` where the server cannot be started. Who only tries it may change its entry, and is shown
 * what it wrote.
 */
export async function start(server: string, hosted: HostedUpstream, isTrial: boolean): Promise<void> {
  try {
    await hosted.upstream.start();
  } catch (error) {
    // Nothing is wrong with a server for which there is no room at present, or whose messages nobody reads.
    if (!(error instanceof BerthError) || FOR_NOW.has(error.code)) throw error;
    // Without its data: a wrong launcher URI is shown there, and may hold what clients must not see.
    const said = problem(error.code.replaceAll("_", "-"), error.message);
    const stderr = isTrial && error instanceof UpstreamError ? printable(error.stderr.slice(-STDERR_UNITS_MAX)) : "";
    throw refused(server, [stderr === "" ? said : { ...said, frame: stderr }], error);
  }
}

/** The end of the text, which says why. */
const STDERR_UNITS_MAX = 1_500;

const FOR_NOW: ReadonlySet<ErrorCode> = new Set(["too_many_processes", "no_descriptors", "check_failed"]);

export function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

export function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
