import { dropAhead, startAhead } from "./ahead.ts";

/** Runs the commands that reach servers of others; `name` is what the program was called by. */
export async function runReaching(name: "berth" | "berth-mcp"): Promise<void> {
  startAhead(process.argv.slice(2));
  try {
    const { reachingProgram } = await import("./program.ts");
    await reachingProgram(name).parseAsync();
  } finally {
    await dropAhead();
  }
}
