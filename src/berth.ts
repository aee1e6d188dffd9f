#!/usr/bin/env node

/**
 * `berth`, as it is installed. The commands that reach servers of others stand in pipes, where each moment counts: they
 * come from a few files that the build makes of them (scripts/bundle-commands.mjs), since node takes longer for a hundred
 * small files than these commands do for their work. All others come from cli.ts.
 */
const reaching: ReadonlySet<string> = new Set(["inspect", "cat", "head", "tail", "put", "profile", "mcp"]);

if (reaching.has(process.argv[2] ?? "")) {
  const bundle = new URL("../reach/reaching.mjs", import.meta.url).href;
  const { runReaching } = (await import(bundle)) as typeof import("./commands/upstream/reaching.ts");
  await runReaching("berth");
} else {
  await import("./cli.ts");
}
