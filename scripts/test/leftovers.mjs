// The leftovers of a test run: processes that still run, and files in its temporary folder.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as later } from "node:timers/promises";

/** The time for processes that were told to end. */
const END_MS = 30_000;
const LINE_CHARS = 200;
/** The command line of a run, and not that of a shell that starts one. */
const RUNNER = /^(\S*\/)?node .*scripts\/test\.mjs/;
/** Node (22 and later) keeps its compiled code of npm here, for all that share a temporary folder. */
const CACHE_OF_NODE = "node-compile-cache";

/**
 * Watches a run that begins now. `find` names each process and each file that it has left behind; undefined if there
 * are none.
 *
 * @param {string | undefined} project the folder whose compiled files and fixtures the run starts; without it, only
 *   processes that know `folder` count
 * @param {string} folder where the run's temporary files are, known to it as TMPDIR
 */
export function watchLeftovers(project, folder) {
  const others = new Set(processes().map(({ id }) => id));
  // Most know TMPDIR. Guests and the compiler get no variables; their command lines name files of the project, which
  // other runs of the same project start, too.
  const isOfRun = ({ id, words, pid }, all) =>
    !others.has(id) &&
    (words.includes(folder) ||
      (project !== undefined && words.includes(join(project, "dist")) && !isOfOtherRun(pid, all)));
  const find = () => {
    const all = processes();
    return all.filter((each) => isOfRun(each, all));
  };

  return {
    async find() {
      for (const end = Date.now() + END_MS; find().length > 0 && Date.now() < end;) await later(50);
      await removeOfKilled(folder);
      const left = [
        ...find().map(({ pid, command }) => `process ${pid}: ${command.slice(0, LINE_CHARS)}`),
        ...filesIn(folder).map((name) => `the file or folder ${name}`),
      ];
      return left.length === 0 ? undefined : `left behind:\n${left.map((each) => `  ${each}`).join("\n")}`;
    },
  };
}

/** Removes what the next Berth would: the working folders of killed ones. */
async function removeOfKilled(folder) {
  const { WorkFolders } = await import("../../dist/src/processes/work-folders.js");
  const count = () => filesIn(folder).filter((name) => name.startsWith("berth-work-")).length;
  for (let before = Infinity; count() > 0 && count() < before;) {
    before = count();
    await new WorkFolders().close();
  }
}

/** True for a process that another run has started, directly or through others, and that this run has not. */
function isOfOtherRun(pid, all) {
  const byPid = new Map(all.map((each) => [each.pid, each]));
  for (let parent = byPid.get(pid)?.parent; parent !== String(process.pid); parent = byPid.get(parent)?.parent) {
    if (parent === undefined) return false;
    if (RUNNER.test(byPid.get(parent)?.command)) return true;
  }
  return false;
}

function filesIn(folder) {
  return readdirSync(folder).filter((name) => name !== CACHE_OF_NODE);
}

/** Every other readable process; none where there is no /proc. */
function processes() {
  return pids().flatMap((pid) => {
    try {
      const read = (name) => readFileSync(`/proc/${pid}/${name}`, "utf8");
      const command = read("cmdline").replaceAll("\0", " ").trim();
      const stat = read("stat")
        .replace(/^.*\) /s, "")
        .split(" ");
      const [parent, started] = [stat[1], stat[19]];
      // Its id and start time: ids are reused.
      return [{ pid, parent, id: `${pid} ${started}`, command, words: `${command} ${read("environ")}` }];
    } catch {
      return []; // It has gone, or is another user's.
    }
  });
}

function pids() {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && name !== String(process.pid));
}
