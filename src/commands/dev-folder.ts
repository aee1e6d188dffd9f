import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, extname, join, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { watch } from "chokidar";
import type { Fill } from "../compose/core.ts";
import { type Berth, startBerth } from "../compose/main.ts";
import { type Config, readConfig } from "../config.ts";
import { gatherDefinition, listSkillFiles } from "../discover/gather.ts";
import { serverNameProblem } from "../entry/fields.ts";
import { originalPath } from "../image/definitions.ts";
import { packageBlocks } from "../image/folder-packages.ts";
import { gatherSources, type GatheredSources } from "../image/generate.ts";
import { findServerList, MCPS_FILE, PACKAGE_JSON } from "../image/image.ts";
import { type Cid, rawBlock } from "../lib/cid.ts";
import { DATA_FOLDER } from "../lib/data-folder.ts";
import type { Json } from "../lib/json.ts";
import { prettyJson } from "../lib/pretty-json.ts";
import { printableLine } from "../lib/printable.ts";
import type { Problem } from "../lib/problem.ts";
import type { Limits } from "../limits/limits.ts";
import { PACKAGES, type PackageSet, readPackageSet } from "../packages/package-set.ts";
import type { Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { checkEntry } from "./boot.ts";
import { DevGrants } from "./dev-grants.ts";
import { devLog } from "./dev-log.ts";
import { clock } from "./dev-view.ts";
import {
  announceFirst,
  type DevOptions,
  type FindWatched,
  follow,
  pageOf,
  reportServer,
  SETTLED_MS,
  type WatchedServer,
} from "./dev.ts";
import { environmentOf } from "./environment.ts";
import { openInBrowser } from "./open-in-browser.ts";
import { namedFromHere, openOwnFolder, type OwnFolder, prepareData, shownFolder } from "./own-folder.ts";
import { ownNpm } from "./own-npm.ts";
import { printProblems } from "./print-problems.ts";
import { recordDev } from "./running-dev.ts";
import { boundShutdown } from "./shutdown-bound.ts";
import { signalled } from "./signalled.ts";

/**
 * `berth dev [DIR]`: serves the servers of a folder with their entries, and again whenever the list of servers, a
 * definition, a file that one imports, or `package.json` changes. Its data is the folder's own, apart from that of
 * `berth serve`; names in it follow the files. Ends with SIGINT, SIGTERM or SIGHUP.
 */
export async function devFolder(path: string | undefined, options: DevOptions): Promise<number> {
  const ended = signalled();
  const own = openOwnFolder(path);
  prepareData(own);
  const isStrict = options.strict ?? false;
  const data = options.data ?? own.devData;
  const read = readConfig({
    BERTH_LOG: options.json ? "info" : "warn",
    ...environmentOf({ ...options, folder: own, data }),
  });
  const grants = await DevGrants.open(options);
  const config = grants.openTo(read);
  const served = new ServedFolder(own, config);
  const begun: FolderChange[] = [];
  const fill: Fill = async (store, tenant) => {
    begun.push(await served.begin(store, tenant));
  };
  const log = devLog(config, options);
  void boundShutdown(config.limits, log, ended);
  const berth = await startBerth(config, log, fill, undefined, grants);
  const following = grants.follow(berth);
  const forget = recordDev(own, berth.url);
  try {
    follow(berth, served.find, options);
    const [first] = begun;
    await report(berth, own, served, first!, isStrict);
    const watching = watchFolder(own, berth, served, first!, isStrict);
    const [server] = served.servers;
    if (server) {
      announceFirst(berth, server);
      if (options.open) openInBrowser(pageOf(berth, server));
    } else {
      console.error(
        "\nNothing is served yet. Berth watches the files and reloads them after each save. Stop with Ctrl-C.",
      );
    }
    await ended;
    await watching.close();
  } finally {
    forget();
    await following.close();
    await berth.close();
  }
  return 0;
}

/** Folders of sources in which nothing is a source. */
const UNWATCHED = new RegExp(`[\\\\/](?:node_modules|\\.git|${DATA_FOLDER.replace(".", "\\.")})(?:[\\\\/]|$)`);

/** npm writes `package.json` before its lock: for so long, the two may not fit each other. */
const LOCK_MS = 500;

/** Serves again whenever something changes in a folder that has a source. */
function watchFolder(
  own: OwnFolder,
  berth: Berth,
  served: ServedFolder,
  first: FolderChange,
  isStrict: boolean,
): { close(): Promise<void> } {
  const isUnwatched = (path: string): boolean => UNWATCHED.test(path.slice(own.folder.length));
  const settled = { stabilityThreshold: SETTLED_MS, pollInterval: 10 };
  const watcher = watch([], { depth: 0, ignored: isUnwatched, awaitWriteFinish: settled });
  let isAsked = false;
  let isLocking = false;
  let turn: Promise<void> | undefined;
  const serveAgain = async (): Promise<void> => {
    while (isAsked) {
      if (isLocking) await sleep(LOCK_MS);
      isAsked = isLocking = false;
      try {
        const change = await served.read();
        watcher.add([...change.folders]);
        if (change.isChanged) await berth.reload();
        await report(berth, own, served, change, isStrict);
      } catch (error) {
        console.error(`berth: ${(error as Error).message}`);
      }
    }
    turn = undefined;
  };
  watcher.on("all", (_event, path) => {
    isAsked = true;
    isLocking ||= path === join(own.folder, PACKAGE_JSON);
    turn ??= serveAgain();
  });
  watcher.on("error", (error) => console.error(`berth: ${(error as Error).message}`));
  // What it finds there counts as changed: nobody knows its state before it was watched.
  watcher.add([...first.folders]);
  return {
    async close() {
      isAsked = false;
      // A closed watcher opens itself for what is added later.
      watcher.add = () => watcher;
      await watcher.close();
      await turn;
    },
  };
}

/** Prints what changed: problems of the folder, servers that came, changed or went. */
async function report(
  berth: Berth,
  own: OwnFolder,
  served: ServedFolder,
  { problems, isUnreadable, isMended, changed, gone, unused }: FolderChange,
  isStrict: boolean,
): Promise<void> {
  printProblems(namedFromHere(problems, own.folder));
  if (isUnreadable && problems.length > 0) {
    console.error(`${clock()} The list of servers cannot be read: what was served before is served until it can.`);
  }
  if (isMended) console.error(`${clock()} The list of servers can be read again.`);
  for (const name of gone) console.error(`${clock()} ${name}  is not served any more`);
  for (const name of changed) {
    const server = served.find(name);
    if (server) await reportServer(berth, server, isStrict);
  }
  for (const path of unused) console.error(`${clock()} ${howToUse(path, own, served)}`);
}

function howToUse(path: string, { folder }: OwnFolder, { find }: ServedFolder): string {
  const list = findServerList((name) => existsSync(join(folder, name))) ?? MCPS_FILE;
  const name = basename(path, extname(path));
  const entry = `"definition": ${JSON.stringify(path)}`;
  const add =
    serverNameProblem(name) !== undefined || find(name) ? `an entry with ${entry}` : `"${name}": { ${entry} }`;
  return printableLine(`${shownFolder(join(folder, path))}: no server of ${list} uses it; add ${add}`);
}

/** The difference between two readings of a folder. */
interface FolderChange {
  /** The folders that have its sources, absolute. */
  readonly folders: ReadonlySet<string>;
  /** Names in the store were changed. */
  readonly isChanged: boolean;
  /** Names of servers, in the order of the list. */
  readonly changed: readonly string[];
  readonly gone: readonly string[];
  readonly isUnreadable: boolean;
  readonly isMended: boolean;
  /** Those of entries and packages; empty where the same were found before. */
  readonly problems: readonly Problem[];
  /** Paths in the folder of definitions that no server has, each told once. */
  readonly unused: readonly string[];
}

/** Brings the names of a store to the servers of a folder. */
class ServedFolder {
  readonly #own: OwnFolder;
  readonly #limits: Limits;
  /** Where the names are. */
  #names: { readonly store: Store; readonly tenant: string } | undefined;
  #servers = new Map<string, WatchedServer>();
  /** The entries as they were served last, each as a text to compare. */
  #entries = new Map<string, string>();
  #set: PackageSet | undefined;
  #held: { mcps?: Cid; packages?: Cid | undefined } = {};
  /** The problems that were told last, as a text to compare. */
  #told = "[]";
  readonly #toldUnused = new Set<string>();
  #isUnreadable = false;

  constructor(own: OwnFolder, { limits }: Config) {
    this.#own = own;
    this.#limits = limits;
  }

  get servers(): readonly WatchedServer[] {
    return [...this.#servers.values()];
  }

  readonly find: FindWatched = (name) => this.#servers.get(name);

  /** Reads the folder for the first time; the store may have packages of the last one. */
  async begin(store: Store, tenant: string): Promise<FolderChange> {
    this.#names = { store, tenant };
    const packages = await store.name(tenant, "variable", PACKAGES);
    const text = packages && (await unlessDamaged(store.content(tenant, packages.cid)));
    this.#set = text && readPackageSet(new TextDecoder().decode(text));
    return this.read();
  }

  /** Reads the folder, and names in the store what it has become. A list that cannot be read changes nothing. */
  async read(): Promise<FolderChange> {
    const gathered = await this.#gather();
    const { isUnreadable, folder, jobs } = gathered;
    const paths = [...Object.keys(folder.cids()), ...jobs.flatMap(({ definition }) => Object.keys(definition.files))];
    const wanted = gathered.sources.mcps.references.map(({ target }) => target);
    const skills = await Promise.all(jobs.map(({ definition }) => listSkillFiles(this.#own.folder, definition.entry)));
    const within = [...paths, ...wanted]
      .map((path) => dirname(join(this.#own.folder, path)))
      .filter((each) => each.startsWith(this.#own.folder + sep));
    const ofSkills = skills.flatMap(({ folders }) => folders).map((path) => join(this.#own.folder, path));
    const folders = new Set([this.#own.folder, ...within, ...ofSkills]);
    const said = JSON.stringify(gathered.problems);
    const problems = said === this.#told ? [] : gathered.problems;
    this.#told = said;
    const isMended = this.#isUnreadable && !isUnreadable;
    this.#isUnreadable = isUnreadable;
    const same = { folders, problems, isUnreadable, isMended, isChanged: false, changed: [], gone: [], unused: [] };
    if (isUnreadable) return same;
    const used = new Set([...paths, ...wanted].map((path) => join(this.#own.folder, path)));
    const unused = await this.#findUnused([this.#own.folder, ...within], used);
    return { ...same, unused, ...(await this.#follow(gathered)) };
  }

  async #findUnused(folders: readonly string[], used: ReadonlySet<string>): Promise<string[]> {
    const found: string[] = [];
    for (const folder of new Set(folders)) {
      if (UNWATCHED.test(folder.slice(this.#own.folder.length))) continue;
      const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
      for (const entry of entries) {
        const path = join(folder, entry.name);
        if (!entry.isFile() || used.has(path) || this.#toldUnused.has(path) || !mayDefine(entry.name)) continue;
        if (EXPORTS.test(await readFile(path, "utf8").catch(() => ""))) found.push(path);
      }
    }
    for (const path of found) this.#toldUnused.add(path);
    return found.map((path) => path.slice(this.#own.folder.length + 1).replaceAll(sep, "/")).sort();
  }

  async #gather(): Promise<GatheredSources> {
    const { folder: from, image: out } = this.#own;
    const npm = ownNpm(from, this.#limits);
    try {
      return await gatherSources(
        {
          from,
          out,
          sourceBytes: this.#limits.sourceBytes,
          refusesServers: true,
          checkEntry,
          fetchPackages: npm.fetch,
          registries: npm.registries,
          haveTarball: async (integrity) => {
            const all = Object.values(this.#set?.packages ?? {});
            const tarball = all.find((each) => each.integrity === integrity)?.tarball;
            const { store, tenant } = this.#names!;
            return tarball === undefined ? undefined : unlessDamaged(store.content(tenant, tarball));
          },
        },
        { gather: (root, entry) => gatherDefinition(root, entry, this.#limits) },
      );
    } finally {
      await npm.close();
    }
  }

  async #follow(gathered: GatheredSources): Promise<Pick<FolderChange, "isChanged" | "changed" | "gone">> {
    const { sources, jobs, packages, problems } = gathered;
    const cids = new Map(jobs.map(({ reference, definition }) => [reference.target, definition.cid]));
    const { value, blocks } = sources.mcps.generate((target) => cids.get(target));
    const mcps = rawBlock(prettyJson(value));
    const ofPackages = packageBlocks(packages);
    const [set] = ofPackages;
    const isChanged = mcps.cid !== this.#held.mcps || set?.cid !== this.#held.packages;
    const isAll = set?.cid !== this.#held.packages;
    if (isChanged) {
      const all = [mcps, ...blocks, ...jobs.flatMap(({ definition }) => definition.blocks), ...ofPackages];
      const { store, tenant } = this.#names!;
      await store.change(tenant, {
        by: "dev",
        put: [...new Map(all.map((block) => [block.cid, block])).values()],
        set: [
          { kind: "variable", name: "mcps", cid: mcps.cid },
          { kind: "variable", name: PACKAGES, cid: set?.cid ?? null },
        ],
      });
      this.#held = { mcps: mcps.cid, packages: set?.cid };
      this.#set = packages?.set;
    }
    const entries = new Map(
      Object.entries(value).map(([name, entry]: [string, Json]) => [name, JSON.stringify(entry)]),
    );
    const changed = [...entries].filter(([name, entry]) => isAll || this.#entries.get(name) !== entry);
    const gone = [...this.#entries.keys()].filter((name) => !entries.has(name));
    this.#entries = entries;
    this.#servers = new Map([...entries.keys()].map((name) => [name, watchedOf(name, this.#own, gathered, problems)]));
    return { isChanged, changed: changed.map(([name]) => name), gone };
  }
}

/** Tests and the configuration of tools are no definitions, though they export. */
function mayDefine(name: string): boolean {
  return name.endsWith(".ts") && !/\.(?:d|test|spec|config)\.ts$/.test(name);
}

/** A line that exports a value, and no type alone. */
const EXPORTS = /^export\s+(?:default|async|function|const|let|var|class|\{|\*)/m;

function watchedOf(name: string, own: OwnFolder, { jobs }: GatheredSources, told: readonly Problem[]): WatchedServer {
  const job = jobs.find(({ reference: { kind, server } }) => kind === "definition" && server === name);
  const entry = job?.reference.entry;
  const known = new Set(told.map(({ message }) => message));
  // What is wrong with the list and what it names was told with its place.
  const isKnown = ({ file, message, pointer }: Problem): boolean =>
    known.has(message) || (file === undefined && !job && pointer === `/${name}/definition`);
  const fileOf = (file: string): string =>
    shownFolder(join(own.folder, (job && originalPath(job.definition, file)) ?? file));
  const named = (problem: Problem): Problem[] => {
    if (problem.file !== undefined) return [{ ...problem, file: fileOf(problem.file) }];
    return entry && problem.pointer !== undefined ? namedFromHere(entry.place([problem]), own.folder) : [problem];
  };
  return { name, fileOf, named: (problems) => problems.filter((each) => !isKnown(each)).flatMap(named) };
}
