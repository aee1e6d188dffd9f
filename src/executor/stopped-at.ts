import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { runInThread } from "../lib/run-in-thread.ts";
import type { TriedProgram } from "./executor.ts";
import { BUNDLE_NAME, SourcePositions, UNMAPPED } from "./guest/bundle.mts";

/** Node prints ten frames. */
const FRAMES_MAX = 16;
/** Traces of one tenant that wait for the thread; a call with a further one fails without a stack. */
const WAITING_MAX = 4;
/** One thread for all tenants: reading a source map takes tens of milliseconds for each megabyte. */
const turns = new FairSemaphore(1, WAITING_MAX, () => 1);
const workerFile = new URL("./stopped-at-worker.js", import.meta.url);

/** The input of the thread. */
export interface StoppedProgram {
  readonly code: string | Uint8Array;
  /** Positions in the bundle, the innermost first. */
  readonly frames: readonly string[];
}

/**
 * The position in the sources at which a process was interrupted (`--trace-sigint`), as the stack of an error shows it.
 * The program may write the same: nothing is taken from `stderr` but numbers, and they count only in its own sources.
 */
export async function stackWhenStopped(
  program: Pick<TriedProgram, "tenant" | "code">,
  stderr: string,
): Promise<string | undefined> {
  const trace = stderr.slice(Math.max(0, stderr.lastIndexOf("KEYBOARD_INTERRUPT: ")));
  const found = [...trace.matchAll(/berth-bundle\.mjs(?:\?\w+)?:(\d{1,9}):(\d{1,9})\)?$/gm)].slice(0, FRAMES_MAX);
  const frames = found.map(([, line, column]) => `    at ${BUNDLE_NAME}:${line}:${column}`);
  if (frames.length === 0 || !(await turns.enter(program.tenant, () => {}))) return undefined;
  try {
    const stopped: StoppedProgram = { code: await program.code(), frames };
    const read = await runInThread(workerFile, stopped);
    return "why" in read ? undefined : (read.result as string | undefined);
  } catch {
    return undefined;
  } finally {
    turns.leave(program.tenant);
  }
}

/** Maps the innermost position that is in the sources. For the thread. */
export function mapStopped({ code, frames }: StoppedProgram): string | undefined {
  const positions = new SourcePositions(typeof code === "string" ? Buffer.from(code) : code);
  for (const frame of frames) {
    const mapped = positions.mapStack(frame);
    if (!mapped.startsWith(`    at ${UNMAPPED}`)) return [mapped, positions.frameOf(frame)].filter(Boolean).join("\n");
  }
  return undefined;
}
