import type { Ahead } from "./ahead.ts";
import { reachingProgram } from "./program.ts";
import { beginWith } from "./reach.ts";

/** Runs the commands that reach upstreams; `name` is the program's name. */
export async function runReaching(name: "berth" | "berth-mcp", ahead: Ahead | undefined): Promise<void> {
  beginWith(ahead);
  try {
    await reachingProgram(name).parseAsync();
  } finally {
    await ahead?.drop();
  }
}
