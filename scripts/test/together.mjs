// Decides which test files share a process. Each process begins with half a second of work, to load Berth and to have
// V8 compile it, which the later files in it are spared.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";

const TESTS = "dist/test";

/**
 * The files of a folder share a process, except these: their tests examine the processes or the memory of their own
 * process, change its global state, or only start others.
 */
const ALONE = [
  /^(browser\/tester|cluster|commands|executor|processes|product|scripts|store|upstream)\b/,
  /^access\/(tokens-from-another|rights)/,
  /^admission\/abandoned/,
  /^clients\/(command-lines|reference-servers|setup|stdio)/,
  /^discover\/(author-mistakes|compiler|fuzz)/,
  /^entry\/bounds/,
  /^host\/(builtin\/explore|calls\/(long-arguments|upstream-(errors|pass|questions))|serving\/upstream)/,
  /^host\/catalog\/(memory|permitted|upstream-(hostile|methods))/,
  /^host\/checks\/(hostile-values|long-values|check-process)/,
  /^http\/(body|pages\/setup|unread)/,
  /^image\/(committed|tenant-files-processes)/,
  /^lib\/growing-bytes/,
  /^mcp\/(legacy\/(replay-shares|resumption|stream-store)|stdio)/,
  /^(native\/stdio|network\/read-in-turns|tenants\/attacks)/,
  /^packages\/(confined|npm)/,
];

/** A hook of the whole process would run for all files that share it. */
const HOOK = /^(before|beforeEach|afterEach)\(/m;

/**
 * The files of each process, by the one that it is started with.
 *
 * @param {string[]} files
 * @param {string} folder for the files that start several
 * @returns {Map<string, string[]>}
 */
export function inProcesses(files, folder) {
  mkdirSync(folder);
  const groups = new Map();
  for (const file of files) {
    const group = isAlone(file) ? file : dirname(file);
    groups.set(group, [...(groups.get(group) ?? []), file]);
  }
  return new Map([...groups.values()].map((group) => [group.length === 1 ? group[0] : entryOf(group, folder), group]));
}

function isAlone(file) {
  const name = relative(TESTS, file);
  return name.startsWith("..") || ALONE.some((names) => names.test(name)) || HOOK.test(readFileSync(file, "utf8"));
}

function entryOf(files, folder) {
  const room = relative(TESTS, dirname(files[0])).replaceAll("/", "-");
  const entry = join(folder, `${room}-${files.length}-files.test.mjs`);
  writeFileSync(entry, files.map((file) => `await import(${JSON.stringify(pathToFileURL(file).href)});\n`).join(""));
  return entry;
}
