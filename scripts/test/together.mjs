// Decides which test files share a process. Each process begins with half a second of work, to load Berth and to have
// V8 compile it, which the later files in it are spared.
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";

const TESTS = "dist/test";

/**
 * The files of a folder share a process, except these: their tests examine the processes or the memory of their own
 * process, change its global state, or only start others.
 */
const ALONE = [
  /^(cluster|commands|executor|processes|product|scripts|store|upstream)\b/,
  /^access\/rights/,
  /^admission\/abandoned/,
  /^clients\/(reference-servers|stdio)/,
  /^discover\/(compiler|fuzz|typescript\/author-mistakes)/,
  /^entry\/bounds/,
  /^features\/(\w+\/commands|clients\/(connect|real-clients|setup)|native\/stdio|profiles|tenant-files\/processes|without-features)/,
  /^host\/(calls\/(long-arguments|upstream-(errors|pass|questions|recovery))|upstreams\/upstream-(limits|silence|starts))/,
  /^host\/(offers\/memory|catalog\/(permitted|upstream-(hostile|methods)))/,
  /^host\/checks\/(hostile-values|long-values|check-process)/,
  /^http\/(body|health|unread)/,
  /^image\/committed/,
  /^lib\/growing-bytes/,
  /^mcp\/(legacy\/(replay-shares|resumption|stream-store)|stdio)/,
  /^(network\/read-in-turns|tenants\/attacks)/,
  /^packages\/(confined|npm)/,
];

/** A hook of the whole process would run for all files that share it. */
const HOOK = /^(before|beforeEach|afterEach)\(/m;

/** Files that share one process, and so one Chromium, whatever their folder. */
const BROWSER = /^import .*support\/browser\.js"/m;

/**
 * The files of each process, by the one that it is started with; the largest first, so that none is alone at the end.
 *
 * @param {string[]} files
 * @param {string} folder for the files that start several
 * @returns {Map<string, string[]>}
 */
export function inProcesses(files, folder) {
  mkdirSync(folder);
  const groups = new Map();
  for (const file of files) {
    const group = groupOf(file);
    groups.set(group, [...(groups.get(group) ?? []), file]);
  }
  const size = ([, of]) => of.reduce((bytes, file) => bytes + statSync(file).size, 0);
  const ordered = [...groups].sort((one, other) => size(other) - size(one));
  return new Map(ordered.map(([group, of]) => [of.length === 1 ? of[0] : createEntry(group, of, folder), of]));
}

function groupOf(file) {
  const name = relative(TESTS, file);
  const text = readFileSync(file, "utf8");
  if (name.startsWith("..") || ALONE.some((names) => names.test(name)) || HOOK.test(text)) return file;
  return BROWSER.test(text) ? "browsers" : relative(TESTS, dirname(file)).replaceAll("/", "-");
}

function createEntry(group, files, folder) {
  const entry = join(folder, `${group}-${files.length}-files.test.mjs`);
  writeFileSync(entry, files.map((file) => `await import(${JSON.stringify(pathToFileURL(file).href)});\n`).join(""));
  return entry;
}
