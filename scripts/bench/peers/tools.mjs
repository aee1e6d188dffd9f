/** The tools that contestants offer: `echo`, and up to 49 others of a usual size, the same for all. */

/** @param {number} count @returns {string[]} */
export function toolNames(count) {
  return ["echo", ...Array.from({ length: count - 1 }, (_, index) => `task_${String(index + 1).padStart(2, "0")}`)];
}

export const serverInfo = { name: "echo", version: "1.0.0" };

/** Where to listen and how many tools to offer, from the command line: `node PEER.mjs PORT [TOOLS]`. */
export const port = Number(process.argv[2]);
export const toolCount = Number(process.argv[3] ?? 1);
