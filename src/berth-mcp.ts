#!/usr/bin/env node
import { runReaching } from "./commands/upstream/reaching.ts";

/**
 * The commands that reach servers of others, by themselves: the build makes one file of this, dist/berth-mcp.mjs, that
 * runs wherever Node does (J10). So nothing that it imports may know what is hosted here.
 */
await runReaching("berth-mcp");
