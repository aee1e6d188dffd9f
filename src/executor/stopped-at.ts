import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { runInThread } from "../lib/run-in-thread.ts";
import type { TrialProgram } from "./executor.ts";
import { BUNDLE_NAME, SourcePositions, UNMAPPED } from "./guest/bundle.mts";

/** Node prints at most ten frames. */
const FRAMES_MAX = 16;
/** Traces of one tenant that wait for the thread; further calls fail without a stack. */
const WAITING_MAX = 4;
/** One thread for all tenants: reading a source map takes tens of milliseconds per megabyte. */
const semaphore = new FairSemaphore(1, WAITING_MAX, () => 1);
const workerFile = new URL("./stopped-at-worker.js", import.meta.url);

/** The input of the thread. */
export interface StoppedProgram {
  readonly code: string | Uint8Array;
  /** Positions in the bundle, the innermost first. */
  readonly frames: readonly string[];
}

/**
 * The source position at which a process was interrupted (`--trace-sigint`), formatted as the stack of an error. The
 * program may print the same: only numbers are taken from `stderr`, and they are resolved only in its own sources.
 */
export async function stackWhenStopped(
  program: Pick<TrialProgram, "tenant" | "code">,
  stderr: string,
): Promise<string | undefined> {
  const trace = stderr.slice(Math.max(0, stderr.lastIndexOf("KEYBOARD_INTERRUPT: ")));
  const matches = [...trace.matchAll(/berth-bundle\.mjs(?:\?\w+)?:(\d{1,9}):(\d{1,9})\)?$/gm)].slice(0, FRAMES_MAX);
  const frames = matches.map(([, line, column]) => `    at ${BUNDLE_NAME}:${line}:${column}`);
  if (frames.length === 0 || !(await semaphore.enter(program.tenant, () => {}))) return undefined;
  try {
    const stopped: StoppedProgram = { code: await program.code(), frames };
    const outcome = await runInThread(workerFile, stopped);
    return "why" in outcome ? undefined : (outcome.result as string | undefined);
  } catch {
    return undefined;
  } finally {
    semaphore.leave(program.tenant);
  }
}

/** Maps the innermost position that is in the sources. Runs in the thread. */
export function mapStopped({ code, frames }: StoppedProgram): string | undefined {
  const positions = new SourcePositions(typeof code === "string" ? Buffer.from(code) : code);
  for (const frame of frames) {
    const mapped = positions.mapStack(frame);
    if (!mapped.startsWith(`    at ${UNMAPPED}`)) return [mapped, positions.frameOf(frame)].filter(Boolean).join("\n");
  }
  return undefined;
}
