// Decides which test files share a process. Each process begins with half a second of work, to load Berth and to have
// V8 compile it, which the later files in it are spared.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Files by the beginnings of their names; all others have a process of their own. Excluded are files whose tests
 * examine the processes or the memory of their own process, change its global state, or only start others.
 */
const TOGETHER = [
  // One Chromium for all.
  /^(audit-pages|editor-pages|pages(-fit)?\.|plain-page|secrets-pages|sign-in|upstream-pages)/,
  /^(access(?!-process)|own-token|public-url|refusals|write-guard)/,
  /^(admission|aggregate|api-|audit|bundle|call-table|metrics|observe|outcome\.|trace|tenancy|shares)/,
  /^(canonical|cid|comparisons|contract|discovery|discover-(key|shell)|edits|editor-parts|gather|histories|json-source|last-words|listeners|long-text|open-call|pages-(bounds|render)|printable|records-in-parts|redactor|release-recorder|turns|views|watchers)/,
  /^(clients-(content|pages|resumption|sessions|uris)|health|http|native\.|plain|query|redirects|sse)/,
  /^(defaults|error-places|list-pages|load-at|long-(led|lists|results)|recent-lines|results|reviews)/,
  /^(config|host-|mcps|product|uris)/,
  /^hosting-(?!limits)/,
  /^(image-(?!boot)|network|resource|seal|secrets|tenant-files(?!-processes))/,
  /^mcp-/,
  /^(outcomes\.|reference)/,
  /^tenants(?!-attacks)/,
  /^upstream-(launcher|looking|pending)/,
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
    const family = TOGETHER.findIndex((names) => names.test(basename(file)));
    const group = family === -1 || HOOK.test(readFileSync(file, "utf8")) ? file : family;
    groups.set(group, [...(groups.get(group) ?? []), file]);
  }
  return new Map([...groups.values()].map((group) => [group.length === 1 ? group[0] : entryOf(group, folder), group]));
}

function entryOf(files, folder) {
  const entry = join(folder, `${basename(files[0], ".test.js")}-and-${files.length - 1}-more.test.mjs`);
  writeFileSync(entry, files.map((file) => `await import(${JSON.stringify(pathToFileURL(file).href)});\n`).join(""));
  return entry;
}
