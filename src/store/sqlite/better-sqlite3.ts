import { createRequire } from "node:module";
import { join } from "node:path";
import { packageRoot } from "../../config.ts";
import { BerthError } from "../../lib/errors.ts";

const require = createRequire(import.meta.url);

/**
 * The Node-API version that better-sqlite3 13 needs, available since Node.js 22.14. On older versions of Node.js, the
 * library crashes the process.
 */
const NODE_API = 10;
const hasNodeApi = Number(process.versions.napi) >= NODE_API;

const FIX =
  `run: node "${join(packageRoot, "sqlite", "install.mjs")}"` +
  (hasNodeApi ? "" : " (it may compile for minutes; Node.js 22.14 or later needs no compiler)");

/**
 * SQLite, imported as `#better-sqlite3` (package.json), in the version of the library that supports the running
 * Node.js. None supports all: Node.js 24 aborts when it garbage-collects a statement or a database of version 12.
 */
export default hasNodeApi
  ? loadLibrary("better-sqlite3-13", () => require("better-sqlite3-13"))
  : loadLibrary("better-sqlite3", () => require("better-sqlite3"));

/**
 * Loads the library. If it is missing, returns a stand-in that fails when a database is opened: npm may have run no
 * script, or Node.js is another version now.
 */
function loadLibrary(name: string, load: () => unknown): unknown {
  try {
    return load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    return function missing() {
      throw new BerthError("store_failed", `${name}, which Node.js ${process.version} needs, is not installed: ${FIX}`);
    };
  }
}
