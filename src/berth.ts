#!/usr/bin/env node
import { startAhead } from "./features/profiles/commands/start-ahead.ts";
import { closeInherited } from "./processes/inherited-descriptors.ts";

/**
 * `berth`, as it is installed: bundled by the build (scripts/bundle-commands.mjs), because Node takes longer to load
 * hundreds of small files than most commands for their work. Those that reach upstreams stand in pipes, where each moment
 * counts: they load the least. All other commands come from cli.ts.
 */
const reaching: ReadonlySet<string> = new Set(["inspect", "cat", "head", "tail", "put", "profile", "mcp"]);
const serving: ReadonlySet<string> = new Set(["serve", "dev"]);

void start(process.argv.slice(2));

async function start(argv: readonly string[]): Promise<void> {
  if (reaching.has(argv[0] ?? "")) {
    closeInherited(argv);
    const ahead = startAhead(argv);
    const { runReaching } = await import("./features/profiles/commands/reaching.ts");
    await runReaching("berth", ahead);
  } else if (serving.has(argv[0] ?? "")) await import("./serving-cli.ts");
  else await import("./cli.ts");
}
