import { createRequire } from "node:module";
import { BerthError } from "../../lib/errors.ts";

const require = createRequire(import.meta.url);

/**
 * The Node-API version that better-sqlite3 13 needs, available since Node.js 22.14. On older versions of Node.js, the
 * library crashes the process.
 */
const NODE_API = 10;
const hasNodeApi = Number(process.versions.napi) >= NODE_API;

/**
 * SQLite, imported as `#better-sqlite3` (package.json), in the version of the library that supports the running
 * Node.js. None supports all: Node.js 24 aborts when it garbage-collects a statement or a database of version 12.
 */
export default hasNodeApi
  ? loadLibrary("better-sqlite3-13", () => require("better-sqlite3-13"))
  : loadLibrary("better-sqlite3", () => require("better-sqlite3"));

/**
 * Loads the library. If it is missing, returns a stand-in that fails when a database is opened: npm silently skips
 * optional packages that it cannot install.
 */
function loadLibrary(name: string, load: () => unknown): unknown {
  try {
    return load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    const fix = 'install Berth again with this version of Node.js ("npm ci" in a clone), without "--omit=optional"';
    return function missing() {
      throw new BerthError("store_failed", `${name}, which Node.js ${process.version} needs, is not installed: ${fix}`);
    };
  }
}
