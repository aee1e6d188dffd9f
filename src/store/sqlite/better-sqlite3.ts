import { createRequire } from "node:module";
import { BerthError } from "../../lib/errors.ts";

const require = createRequire(import.meta.url);

/**
 * The Node-API version that better-sqlite3 13 needs. Node has it since 22.14; on older ones the library crashes the
 * process.
 */
const NODE_API = 10;
const hasNodeApi = Number(process.versions.napi) >= NODE_API;

/**
 * SQLite, as `#better-sqlite3` (package.json) names it, in the version of the library that works on the running Node.
 * No version works on all: Node 24 aborts when it collects a statement or a database of version 12.
 */
export default hasNodeApi
  ? loaded("better-sqlite3-13", () => require("better-sqlite3-13"))
  : loaded("better-sqlite3", () => require("better-sqlite3"));

/** The library, or a stand-in that fails when a database is opened: npm silently leaves an optional package out. */
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
