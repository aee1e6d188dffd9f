#!/usr/bin/env node
import { startAhead } from "./features/profiles/commands/start-ahead.ts";
import { closeInherited } from "./processes/inherited-descriptors.ts";

/**
 * The commands that reach upstreams, on their own: the build makes one file of this, dist/berth-mcp.mjs, that runs
 * wherever Node does (J10). So nothing that it imports may know what is hosted here.
 */
const argv = process.argv.slice(2);
closeInherited(argv);
const ahead = startAhead(argv);
const { runReaching } = await import("./features/profiles/commands/reaching.ts");
await runReaching("berth-mcp", ahead);
