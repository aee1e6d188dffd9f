import { existsSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { watch } from "chokidar";
import type { Fill } from "../compose/core.ts";
import { type Berth, startBerth } from "../compose/main.ts";
import { readConfig } from "../config.ts";
import { findPackageImports } from "../discover/files/imports.ts";
import { TSCONFIG } from "../discover/files/path-aliases.ts";
import { skillsFolder } from "../discover/files/skill-files.ts";
import { gatherDefinition, listSkillFiles } from "../discover/gather.ts";
import { serverNameProblem } from "../entry/fields.ts";
import type { DeclaredFolder } from "../folders/folders.ts";
import type { ServerSummary } from "../host/catalog/overview.ts";
import { packDefinition, type PackedDefinition } from "../image/definition.ts";
import { packageBlocks } from "../image/folder-packages.ts";
import { PACKAGE_JSON, type ServerRecord } from "../image/image.ts";
import { type Block, type Cid, jsonBlock, rawBlock } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { type Problem, withTypeErrors } from "../lib/problem.ts";
import type { Limits } from "../limits/limits.ts";
import type { HaveTarball } from "../packages/fetch-set.ts";
import { PACKAGES, type PackageSet } from "../packages/package-set.ts";
import { WorkFolders } from "../processes/work-folders.ts";
import type { Store } from "../store/store.ts";
import { DevGrants, type DevGrantsOptions } from "./dev-grants.ts";
import { devLog } from "./dev-log.ts";
import { clock, DevView } from "./dev-view.ts";
import { environmentOf, type EnvironmentOptions } from "./environment.ts";
import { openInBrowser } from "./open-in-browser.ts";
import { namedFromHere } from "./own-folder.ts";
import { counted, countProblems, printProblems } from "./print-problems.ts";
import { packageFilesOf, packagesFolder, projectPackages } from "./project-packages.ts";
import { boundShutdown } from "./shutdown-bound.ts";
import { signalled } from "./signalled.ts";
import { stylesFor } from "./styles.ts";

export interface DevOptions extends Pick<EnvironmentOptions, "data">, DevGrantsOptions {
  readonly port?: string;
  readonly host?: string;
  /** Makes missing files. */
  readonly new?: boolean;
  /** Type errors are reported as errors. */
  readonly strict?: boolean;
  /** Shows only what goes wrong. */
  readonly quiet?: boolean;
  /** Prints lines of JSON. */
  readonly json?: boolean;
  /** Opens the page of the first server in the browser. */
  readonly open?: boolean;
}

/** Editors write a file in several steps. */
export const SETTLED_MS = 40;

/**
 * `berth dev FILE…`: serves definitions straight from their files, and again whenever one of them, or a file it
 * imports, changes. Without `--data` nothing is kept. Ends with SIGINT, SIGTERM or SIGHUP.
 */
export async function dev(paths: readonly string[], options: DevOptions): Promise<number> {
  const ended = signalled();
  const isStrict = options.strict ?? false;
  if (options.new) await makeStarters(paths);
  const servers = await fileServers(paths);
  const folders = new WorkFolders();
  const folder = options.data ?? folders.make("dev-");
  try {
    const read = readConfig({
      BERTH_LOG: options.json ? "info" : "warn",
      ...environmentOf({ ...options, folder: undefined, data: folder }),
    });
    const grants = await DevGrants.open(options);
    const config = grants.openTo(read);
    let files: DevFiles | undefined;
    const fill: Fill = async (store, tenant) => {
      files = new DevFiles(store, tenant, config.limits);
      for (const server of servers) await files.read(server);
      await files.readPackages();
      await files.giveFolders(servers, config.folders);
    };
    const log = devLog(config, options);
    void boundShutdown(config.limits, log, ended);
    const berth = await startBerth(config, log, fill, undefined, grants);
    const following = grants.follow(berth);
    try {
      const find: FindWatched = (name) => servers.find((server) => server.name === name);
      follow(berth, find, options);
      const watching = await watchFiles(berth, servers, files!, isStrict);
      printProblems(files!.packageProblems);
      for (const server of servers) await reportServer(berth, server, isStrict);
      announceFirst(berth, servers[0]!);
      if (options.open) openInBrowser(pageOf(berth, servers[0]!));
      await ended;
      await watching.close();
    } finally {
      await following.close();
      await berth.close();
    }
  } finally {
    await folders.close();
  }
  return 0;
}

async function makeStarters(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (existsSync(path)) continue;
    const [text, mode] = path.endsWith(".sh") ? [shell, 0o755] : [typescript, 0o644];
    await writeFile(path, text, { flag: "wx", mode });
    console.error(`Made ${path}.`);
  }
}

const typescript = `/**
 * Greets somebody.
 * @param name - Whom to greet.
 * @param times - How often.
 * @readOnly
 */
export function greet(name: string, times = 1): string {
  return Array(times).fill(\`Hello, \${name}!\`).join(" ");
}
`;

const shell = `#!/bin/sh
# Greets somebody.
# @param name - Whom to greet.
# @readOnly
printf 'Hello, %s!\\n' "$name"
`;

/** Checks whenever a file changes, or may have changed before it was watched. */
async function watchFiles(
  berth: Berth,
  servers: readonly FileServer[],
  files: DevFiles,
  isStrict: boolean,
): Promise<{ close(): Promise<void> }> {
  const owners = new Map<string, Set<FileServer>>();
  /** Handles one change after the other, so that the report matches what is served. */
  let turn = Promise.resolve();
  const follow = (server: FileServer): void => {
    turn = turn.then(() => serveAgain(server)).catch((error: Error) => console.error(`berth: ${error.message}`));
  };
  const serveAgain = async (server: FileServer): Promise<void> => {
    const { read, packages } = await readBoth(server);
    if (!read.changed && !packages.changed) return;
    await berth.reload();
    if (packages.changed) printProblems(packages.problems);
    for (const each of packages.changed ? servers : [server]) await reportServer(berth, each, isStrict);
  };
  const readBoth = async (server: FileServer) => {
    const read = await files.read(server);
    const packages = await files.readPackages();
    own(server, [...read.files, ...packages.files]);
    return { read, packages };
  };
  const own = (server: FileServer, paths: readonly string[]): void => {
    for (const path of paths) {
      const known = owners.get(path);
      owners.set(path, (known ?? new Set()).add(server));
      if (!known) watcher.add(path);
    }
  };

  const watcher = watch([], { awaitWriteFinish: { stabilityThreshold: SETTLED_MS, pollInterval: 10 } });
  // A newly found file counts as changed too: its state before it was watched is unknown.
  watcher.on("all", (_event, path) => (owners.get(path) ?? owners.get(dirname(path)))?.forEach(follow));
  watcher.on("error", (error) => console.error(`berth: ${(error as Error).message}`));
  for (const server of servers) {
    const { read, packages } = await readBoth(server);
    // It was saved between the first look at it and this one.
    if (read.changed || packages.changed) await berth.reload();
  }
  return {
    async close() {
      // A closed watcher opens itself for what is added later: by the change that is dealt with, or by itself for a file that
      // is removed at that moment.
      watcher.add = () => watcher;
      await watcher.close();
      await turn;
    },
  };
}

/** Prints how to connect a client to a server. */
export function announceFirst(berth: Berth, first: WatchedServer): void {
  console.error(
    [
      "",
      "Add it to a client, for example:",
      `  berth connect ${urlOf(berth, first)} --client claude-code`,
      `or try its tools in a browser: ${pageOf(berth, first)}`,
      "",
      "Berth watches the files and reloads them after each save. Stop with Ctrl-C.",
    ].join("\n"),
  );
}

/**
 * Prints the state of one server: its address, its tools, and every problem with its place. `isStrict`: type errors are
 * reported as errors; the server is served all the same.
 */
export async function reportServer(berth: Berth, server: WatchedServer, isStrict: boolean): Promise<void> {
  const served = await berth.server(server.name);
  if (!served) return;
  const loading = served.catalog ? await berth.loadProblems(server.name) : [];
  const found = { ...served, problems: server.named([...served.problems, ...loading]) };
  const summary = isStrict ? { ...found, problems: withTypeErrors(found.problems) } : found;
  console.error(`${clock()} ${server.name}  ${urlOf(berth, server)}  ${countsOf(summary)}`);
  for (const { name, description } of summary.catalog?.contract.tools ?? []) {
    const about = description === undefined ? "" : `  ${description.split("\n")[0]}`;
    console.error(`         ${name}${about}`);
  }
  printProblems(summary.problems);
}

/** Shows what happens on the servers, in lines on stderr. */
export function follow(berth: Berth, find: FindWatched, { quiet = false, json = false }: DevOptions): void {
  const ownFilesOf = (name: string, text: string): string => {
    const server = find(name);
    return server ? ownFiles(text, server) : text;
  };
  const view = new DevView({
    write: (line) => console.error(line),
    style: stylesFor(json ? {} : process.stderr),
    isQuiet: quiet,
    ownFiles: ownFilesOf,
  });
  berth.onLiveEvent(view.onLiveEvent);
}

/** Replaces file names by the person's own. */
function ownFiles(text: string, server: WatchedServer): string {
  return text.replaceAll(/definition:([^\s()]+?)(?=:\d+:\d+)/g, (_, file: string) => server.fileOf(file));
}

function countsOf({ catalog, state, problems }: ServerSummary): string {
  const { tools = [], resources = [], resourceTemplates = [], prompts = [] } = catalog?.contract ?? {};
  const counts: [number, string][] = [
    [tools.length, "tool"],
    [resources.length + resourceTemplates.length, "resource"],
    [prompts.length, "prompt"],
  ];
  const offers = counts
    .filter(([count], index) => count > 0 || index === 0)
    .map(([count, what]) => counted(count, what));
  const unserved = UNSERVED[state] ?? "not served";
  return [catalog ? offers.join(", ") : unserved, countProblems(problems)].filter(Boolean).join(", ");
}

const UNSERVED: Partial<Record<ServerSummary["state"], string>> = {
  disabled: "disabled",
  starting: "is starting",
  unstarted: "starts when it is first called",
};

function urlOf({ url }: Berth, { name }: WatchedServer): string {
  return `${url}/mcp/${encodeURIComponent(name)}`;
}

/** The page that says all of a server, and tries its tools. */
export function pageOf({ url }: Berth, { name }: Pick<WatchedServer, "name">): string {
  return `${url}/mcp/meta/${encodeURIComponent(name)}`;
}

/** A server that is served straight from files. */
export interface WatchedServer {
  readonly name: string;
  /** The path, from the person's working folder, of a file under the name by which it was compiled. */
  fileOf(file: string): string;
  /** Its problems, with their files by such paths. */
  named(problems: readonly Problem[]): Problem[];
}

export type FindWatched = (server: string) => WatchedServer | undefined;

/** A definition that is served straight from its file. Its name is that of the file, without the ending. */
interface FileServer extends WatchedServer {
  /** The path as the person wrote it. */
  readonly path: string;
}

/**
 * The servers that the files define, by name. Throws `config_invalid` with everything that is wrong: a missing file,
 * one of another kind, an invalid server name, and two files of one name.
 */
async function fileServers(paths: readonly string[]): Promise<FileServer[]> {
  const servers: FileServer[] = [];
  const wrong: string[] = [];
  for (const path of paths) {
    const name = basename(path, extname(path));
    const fault = (await faultOfFile(path)) ?? serverNameProblem(name);
    const twin = servers.find((server) => server.name === name);
    if (fault) wrong.push(`${path}: ${fault}`);
    else if (twin) wrong.push(`${path}: ${twin.path} is already the server "${name}"`);
    else servers.push(watchedFile(name, path));
  }
  if (wrong.length > 0) throw new BerthError("config_invalid", wrong.join("; "));
  return servers;
}

function watchedFile(name: string, path: string): FileServer {
  const folder = dirname(resolve(path));
  const fileOf = (file: string): string => relative(process.cwd(), join(folder, file));
  return { name, path, fileOf, named: (problems) => namedFromHere(problems, folder) };
}

async function faultOfFile(path: string): Promise<string | undefined> {
  if (![".ts", ".sh"].includes(extname(path))) return "a definition is a .ts or a .sh file";
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return `there is no such file; create it with \`berth dev --new ${path}\``;
  return stats.isFile() ? undefined : "this is not a file";
}

/** Reads files as definitions, and updates the names of a store to match. */
class DevFiles {
  readonly #store: Store;
  readonly #tenant: string;
  readonly #limits: Limits;
  readonly #held = new Map<string, Cid>();
  /** The imports of each server, and the folder whose packages they mean. */
  readonly #imports = new Map<string, { readonly folder: string; readonly specifiers: readonly string[] }>();
  #packages: DevPackages = NO_PACKAGES;

  constructor(store: Store, tenant: string, limits: Limits) {
    this.#store = store;
    this.#tenant = tenant;
    this.#limits = limits;
  }

  /** The absolute paths of all current files of the definition and of the folders of its skills, and if it has changed. */
  async read({ name, path }: FileServer): Promise<{ files: string[]; changed: boolean }> {
    const folder = dirname(resolve(path));
    const entry = basename(path);
    const { files } = await gatherDefinition(folder, entry, this.#limits);
    // The compiler misses an unreadable file as well, and reports where.
    const definition = packDefinition(entry, { [entry]: "", ...files });
    const language = entry.endsWith(".sh") ? "shell" : "typescript";
    this.#imports.set(name, { folder: packagesFolder(folder), specifiers: findPackageImports({ language, files }) });
    const changed = this.#held.get(name) !== definition.cid;
    if (changed) await this.#name(name, definition);
    const { folders } = await listSkillFiles(folder, entry);
    // Chokidar tells of a folder that is made later, and of all that comes into one.
    const watched = [entry, TSCONFIG, ...Object.keys(files), skillsFolder(entry), ...folders];
    return { files: watched.map((file) => join(folder, file)), changed };
  }

  /** The problems of the `package.json` of the servers, and of its lock. */
  get packageProblems(): readonly Problem[] {
    return this.#packages.problems;
  }

  /** Brings the variable `packages` to the `package.json` of the servers. `files` says what it depends on. */
  async readPackages(): Promise<{ files: string[]; changed: boolean; problems: readonly Problem[] }> {
    const imports = [...this.#imports.values()];
    const folders = [...new Set(imports.map(({ folder }) => folder))];
    const files = folders.flatMap(packageFilesOf);
    const from = JSON.stringify([
      imports,
      await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => null))),
    ]);
    // What could not be fetched may come the next time.
    const isKnown = from === this.#packages.from && this.#packages.problems.length === 0;
    if (isKnown) return { files, changed: false, problems: [] };
    const read = await Promise.all(
      folders.map(async (folder) => {
        const imported = imports.filter((each) => each.folder === folder).flatMap(({ specifiers }) => specifiers);
        const { packages, problems } = await projectPackages(folder, imported, {
          limits: this.#limits,
          have: this.#tarball,
        });
        return { folder, packages, problems: namedFromHere(problems, folder) };
      }),
    );
    const [first, second] = read.filter(({ packages }) => packages);
    const problems = [
      ...read.flatMap((each) => each.problems),
      ...(first && second ? [twoFolders(first.folder, second.folder)] : []),
    ];
    const blocks = packageBlocks(first?.packages);
    const [value] = blocks;
    const said = JSON.stringify([value?.cid, problems]);
    const changed = said !== this.#packages.said;
    if (value?.cid !== this.#packages.value?.cid) {
      await this.#store.change(this.#tenant, {
        by: "dev",
        put: blocks,
        set: [{ kind: "variable", name: PACKAGES, cid: value?.cid ?? null }],
      });
    }
    this.#packages = { from, said, value, set: first?.packages?.set, problems };
    return { files, changed, problems };
  }

  readonly #tarball: HaveTarball = async (integrity) => {
    const locked = Object.values(this.#packages.set?.packages ?? {}).find((each) => each.integrity === integrity);
    return locked?.tarball === undefined ? undefined : this.#store.content(this.#tenant, locked.tarball);
  };

  /** Who runs this is the operator as well: each server sees every declared folder. */
  async giveFolders(servers: readonly FileServer[], declared: readonly DeclaredFolder[]): Promise<void> {
    const own = declared.filter(({ tenants }) => tenants === "all" || tenants.includes(this.#tenant));
    if (own.length === 0 || (await this.#store.name(this.#tenant, "variable", "mcps"))) return;
    const folders = own.map(({ name }) => name);
    const mcps = rawBlock(JSON.stringify(Object.fromEntries(servers.map(({ name }) => [name, { folders }]))));
    await this.#store.change(this.#tenant, {
      by: "dev",
      put: [mcps],
      set: [{ kind: "variable", name: "mcps", cid: mcps.cid }],
    });
  }

  async #name(name: string, { cid, blocks }: PackedDefinition): Promise<void> {
    const record: ServerRecord = { definition: cid, enabled: true };
    const block = jsonBlock(record);
    await this.#store.change(this.#tenant, {
      by: "dev",
      put: [...blocks, block],
      set: [{ kind: "server", name, cid: block.cid }],
    });
    this.#held.set(name, cid);
  }
}

/** The packages of the servers, as they were read last. */
interface DevPackages {
  /** The texts that they were read from. */
  readonly from: string;
  /** All that a person can see of them, as one text to compare. */
  readonly said: string;
  readonly value: Block | undefined;
  readonly set: PackageSet | undefined;
  readonly problems: readonly Problem[];
}

const NO_PACKAGES: DevPackages = { from: "", said: "[null,[]]", value: undefined, set: undefined, problems: [] };

function twoFolders(first: string, second: string): Problem {
  const [one, other] = [first, second].map((folder) => relative(process.cwd(), folder) || ".");
  const message =
    `These servers import packages of ${one}, and others those of ${other}; one Berth serves those of one folder: ` +
    "serve the others with a berth dev of their own";
  return { code: "packages-of-two-folders", message, severity: "error", file: join(other!, PACKAGE_JSON) };
}
