import { createRequire } from "node:module";
import { BerthError } from "../lib/errors.ts";

const require = createRequire(import.meta.url);

/** better-sqlite3 13 is built for it. Node has it since 22.14; before, the library ends the process with a fault of memory. */
const NODE_API = 10;
const hasNodeApi = Number(process.versions.napi) >= NODE_API;

/**
 * SQLite, as `#better-sqlite3` (package.json) names it, by the version of the library that works on the Node that runs.
 * No version works on all: Node 24 aborts when it collects a statement or a database of version 12.
 */
export default hasNodeApi
  ? loaded("better-sqlite3-13", () => require("better-sqlite3-13"))
  : loaded("better-sqlite3", () => require("better-sqlite3"));

/** The library, or what fails when a database is opened: npm leaves an optional package out without a word. */
function loaded(name: string, load: () => unknown): unknown {
  try {
    return load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    const remedy = 'install Berth again with this Node ("npm ci" in a clone), without "--omit=optional"';
    return function missing() {
      throw new BerthError("store_failed", `${name} is not installed, which Node ${process.version} needs: ${remedy}`);
    };
  }
}
