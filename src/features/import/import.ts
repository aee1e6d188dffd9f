import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { text as readAll } from "node:stream/consumers";
import { isConfirmed } from "../../commands/terminal.ts";
import { clientFiles, clientId, type ClientFiles } from "../../config-files/client-files.ts";
import { BerthError } from "../../lib/errors.ts";
import { printable, printableLine } from "../../lib/printable.ts";
import { invalid } from "./parse.ts";
import { planImport, type ImportPlan } from "./plan.ts";
import { openFolder, openRunning, type ImportTarget } from "./targets.ts";

export interface ImportCommandOptions {
  readonly from?: string;
  readonly project?: boolean;
  readonly rename?: readonly string[];
  readonly url?: string;
  readonly yes?: boolean;
}

/**
 * `berth import [FILE]`: imports the servers of a client's file into the folder at hand, or with `--url` into a running
 * Berth. Exit code 1 means that something was not imported.
 */
export async function importServers(file: string | undefined, options: ImportCommandOptions): Promise<number> {
  const source = await openSource(file, options);
  const target = options.url === undefined ? openFolder() : await openRunning(options.url);
  const { stored, taken } = target;
  const renamed = new Map((options.rename ?? []).map(readRename));
  const plan = planImport(source.file, source.text, { ...source.place, stored, taken, renamed });
  report(plan);
  if (plan.servers.length === 0) {
    console.error("There is nothing to import.");
    return plan.refused.length > 0 ? 1 : 0;
  }
  process.stderr.write(target.preview(plan));
  if (!options.yes && !(await isConfirmed(`Change ${target.name}?`, `the change of ${target.name}`))) return 1;
  const isSaved = await target.save(plan);
  offerConnection(source.client, target);
  return isSaved && plan.refused.length === 0 ? 0 : 1;
}

interface Source {
  /** As shown in messages; its ending tells the format. */
  readonly file: string;
  readonly text: string;
  readonly client: string | undefined;
  readonly place: {
    readonly folder: string;
    readonly home: string;
    readonly readFile: (path: string) => string | undefined;
  };
}

const BYTES_MAX = 32 * 1024 * 1024;

async function openSource(file: string | undefined, { from, project }: ImportCommandOptions): Promise<Source> {
  if ((file === undefined) === (from === undefined)) {
    throw new BerthError("invalid_params", "name either a file, or a client with --from");
  }
  const home = process.env["HOME"] || homedir();
  if (file === "-") {
    const place = { folder: process.cwd(), home, readFile: inFolder(process.cwd()) };
    return { file: "standard input", text: await readAll(process.stdin), client: undefined, place };
  }
  const client = from === undefined ? undefined : clientId(from);
  const path = client === undefined ? resolve(file!) : clientFile(client, project);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats?.isFile()) throw invalid(path, "there is no such file");
  if (stats.size > BYTES_MAX) throw invalid(path, `it is longer than ${BYTES_MAX / 1024 / 1024} MiB`);
  // A user's own file belongs to whatever project its client is started in.
  const folder = client !== undefined && !project ? process.cwd() : findProject(path);
  const place = { folder, home, readFile: inFolder(folder) };
  return { file: path, text: readFileSync(path, "utf8"), client, place };
}

function clientFile(client: string, isProject = false): string {
  const ids = Object.keys(clientFiles);
  const files: ClientFiles | undefined = ids.includes(client)
    ? clientFiles[client as keyof typeof clientFiles]
    : undefined;
  if (!files) {
    throw new BerthError("invalid_params", `"${printableLine(client)}" is not a client; use one of ${ids.join(", ")}`);
  }
  const { userFile, projectFile, otherNames = [] } = files;
  if (isProject && projectFile === undefined) throw new BerthError("invalid_params", `${client} has no project file`);
  const path = isProject ? resolve(projectFile!) : userFile(process.env);
  return [path, ...otherNames.map((name) => join(path, "..", name))].find((each) => existsSync(each)) ?? path;
}

/** Clients keep a project's file in its folder, or in a hidden folder there. */
function findProject(path: string): string {
  const folder = dirname(path);
  return /^\.[a-z]/.test(basename(folder)) ? dirname(folder) : folder;
}

function inFolder(folder: string): (path: string) => string | undefined {
  return (path) => {
    if (!existsSync(path) || !statSync(path).isFile() || statSync(path).size > BYTES_MAX / 32) return undefined;
    const isInside = !relative(realpathSync(folder), realpathSync(path)).startsWith("..");
    return isInside ? readFileSync(path, "utf8") : undefined;
  };
}

function readRename(text: string): [string, string] {
  const at = text.lastIndexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new BerthError("invalid_params", `--rename takes NAME=NEW, not "${printableLine(text)}"`);
}

function report({ servers, refused, secrets, unset }: ImportPlan): void {
  for (const { name, reason } of refused)
    console.error(printable(`Not imported: "${printableLine(name)}": ${reason}.`));
  for (const { name, notes } of servers) {
    if (notes.length > 0) console.error(printable(`"${name}": ${notes.map(printableLine).join("; ")}.`));
  }
  if (secrets.size > 0) console.error(`Credentials become secrets: ${[...secrets.keys()].join(", ")}.`);
  for (const [name, about] of unset)
    console.error(printable(`Set the secret ${name} (${printableLine(about)}) yourself.`));
}

function offerConnection(client: string | undefined, { url }: ImportTarget): void {
  const where = url === undefined ? "" : ` --url ${url}`;
  const which = client === undefined || ["goose", "windsurf", "zed"].includes(client) ? "CLIENT" : client;
  console.error(`Connect your client to all servers at one address: berth connect --client ${which}${where}`);
}
