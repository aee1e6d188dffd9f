import { BUNDLE_NAME, SourcePositions, UNMAPPED } from "./guest/bundle.mts";

/** Longer source maps are not read: this one takes the serving thread up to 30 ms. */
const MAP_BYTES_MAX = 512 * 1024;
/** Node prints ten frames. */
const FRAMES_MAX = 16;

/**
 * The position in the sources at which a process was interrupted (`--trace-sigint`), as the stack of an error shows it.
 * The program may write the same: nothing is taken from `stderr` but numbers, and they count only in its own sources.
 */
export function stackWhenStopped(code: string | Uint8Array, stderr: string): string | undefined {
  const trace = stderr.slice(Math.max(0, stderr.lastIndexOf("KEYBOARD_INTERRUPT: ")));
  const frames = [...trace.matchAll(/berth-bundle\.mjs(?:\?\w+)?:(\d{1,9}):(\d{1,9})\)?$/gm)].slice(0, FRAMES_MAX);
  const positions = new SourcePositions(typeof code === "string" ? Buffer.from(code) : code, MAP_BYTES_MAX);
  try {
    for (const [, line, column] of frames) {
      const at = `    at ${BUNDLE_NAME}:${line}:${column}`;
      const mapped = positions.mapStack(at);
      if (!mapped.startsWith(`    at ${UNMAPPED}`)) return [mapped, positions.frameOf(at)].filter(Boolean).join("\n");
    }
  } catch {
    // The map is no better than the compiler that read the program.
  }
  return undefined;
}
