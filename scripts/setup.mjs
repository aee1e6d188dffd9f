// Finds what Berth needs beyond its own dependencies, and installs missing parts where it may: `npm test` runs it
// first. Exit code 0: everything is there. 1: something is missing, and what a person should do is on stderr.
import { lstatSync, symlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { installFolder } from "./install-folder.mjs";
import { installPrograms } from "./install-programs.mjs";

const say = (line) => console.log(`setup: ${line}`);

try {
  installPrograms(say);
  // The clients that tests use against Berth: the inspector, mcporter, mcp-remote, the older SDK, and a Node to run
  // them.
  installFolder(fileURLToPath(new URL("../test/clients", import.meta.url)), say);
  // The upstreams that tests reach through Berth; npx finds the packages in the cache that this fills.
  installFolder(fileURLToPath(new URL("../test/upstreams", import.meta.url)), say);
  // The databases that tests start, and clients to watch them with.
  installFolder(fileURLToPath(new URL("../test/databases", import.meta.url)), say);
  // Another Node that some of the tests run on, and the SQLite library for Node versions newer than this one may be.
  installFolder(fileURLToPath(new URL("../test/nodes", import.meta.url)), say);
  linkLeftOut("better-sqlite3-13", "../test/nodes/node_modules/better-sqlite3-13");
} catch (error) {
  console.error(`setup: ${error.message}`);
  process.exit(1);
}

/** npm leaves out an optional package that needs a newer Node than npm runs on. Berth finds it here on a newer one. */
function linkLeftOut(name, target) {
  const link = fileURLToPath(new URL(`../node_modules/${name}`, import.meta.url));
  if (!lstatSync(link, { throwIfNoEntry: false })) symlinkSync(target, link, "dir");
}
