import { BerthError, type ErrorCode } from "../../errors.ts";
import type { Problem } from "../../problem.ts";
import type { HostedUpstream } from "./hosted.ts";

/** Rejects with `server_refused` where the server cannot be started. */
export async function start(server: string, hosted: HostedUpstream): Promise<void> {
  try {
    await hosted.upstream.start();
  } catch (error) {
    // Nothing is wrong with a server for which there is no room at present.
    if (!(error instanceof BerthError) || NO_ROOM.has(error.code)) throw error;
    // Without its data: a wrong launcher URI is shown there, and may hold what clients must not see.
    throw refused(server, [problem(error.code.replaceAll("_", "-"), error.message)], error);
  }
}

const NO_ROOM: ReadonlySet<ErrorCode> = new Set(["too_many_processes", "no_descriptors"]);

export function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

export function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
