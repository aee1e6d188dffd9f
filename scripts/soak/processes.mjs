import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** A path in the command lines of Berth itself, of the sandboxes of guests, and of upstreams. */
const checkout = fileURLToPath(new URL("../../", import.meta.url));

/**
 * The running processes that Berth starts, with their command lines.
 *
 * @param {string} [folder] programs that are recognized by it count as well
 * @returns {Map<number, string>}
 */
export function running(folder) {
  const found = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const line = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      const isStarted = /dist\/(src|bin)\//.test(line) || line.includes("server-everything");
      if ((isStarted && line.includes(checkout)) || (folder && line.includes(folder))) found.set(Number(name), line);
    } catch {
      // It has ended meanwhile.
    }
  }
  return found;
}
