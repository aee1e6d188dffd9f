import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { parseEnv } from "node:util";
import { watch } from "chokidar";
import type { OwnGrants } from "../compose/core.ts";
import type { Berth } from "../compose/main.ts";
import type { Config } from "../config.ts";
import { parseFolders, type DeclaredFolder } from "../folders/folders.ts";
import { BerthError } from "../lib/errors.ts";
import { printable } from "../lib/printable.ts";
import { parseAllowedHost, type AllowedHost } from "../network/allow-list.ts";
import type { SecretFacts } from "../secrets/grants.ts";
import { nameFault, valueFault } from "../secrets/secret-rules.ts";

export interface DevGrantsOptions {
  /** A file of lines `NAME=value`. */
  readonly envFile?: string;
  /** Hosts, several separated by commas. */
  readonly allowNet?: readonly string[];
  /** `NAME=PATH` each: a folder of the machine that code may read. */
  readonly folder?: readonly string[];
}

/**
 * The grants of whoever runs `berth dev`: what the tags of the files request, with values from `--env-file`, and the
 * hosts of `--allow-net`. Values stay in memory. Only a secret that a tag or an entry names is given to its server.
 */
export class DevGrants implements OwnGrants {
  readonly network: readonly AllowedHost[];
  readonly #path: string | undefined;
  #values: ReadonlyMap<string, string> = new Map();
  #facts: ReadonlyMap<string, SecretFacts> = new Map();

  readonly #folders: readonly DeclaredFolder[];

  private constructor(path: string | undefined, network: readonly AllowedHost[], folders: readonly DeclaredFolder[]) {
    this.#path = path;
    this.network = network;
    this.#folders = folders;
  }

  /** Rejects with `config_invalid` for a file that cannot be read, and for what is no host. */
  static async open({ envFile, allowNet = [], folder = [] }: DevGrantsOptions): Promise<DevGrants> {
    const grants = new DevGrants(envFile, allowNet.flatMap(readHosts), readFolders(folder));
    await grants.read();
    return grants;
  }

  /** The configuration that opens the named private hosts and folders, as `BERTH_PRIVATE_HOSTS` and `BERTH_FOLDERS` do. */
  openTo(given: Config): Config {
    const config = { ...given, folders: [...given.folders, ...this.#folders] };
    const named = this.network
      .filter(({ kind }) => kind === "host")
      .map(({ name, port }) => `${isIP(name) === 6 ? `[${name}]` : name}:${port}`);
    if (named.length === 0) return config;
    return { ...config, privateHosts: [config.privateHosts ?? "", ...named].join(",") };
  }

  /** Reads the file again. Returns the names whose values are others now. */
  async read(): Promise<readonly string[]> {
    if (this.#path === undefined) return [];
    const text = await readFile(this.#path, "utf8").catch((error: NodeJS.ErrnoException) => {
      throw new BerthError("config_invalid", `--env-file ${this.#path} cannot be read: ${error.code}`);
    });
    const before = this.#values;
    this.#values = new Map(
      Object.entries(parseEnv(text.replace(/^\uFEFF/, "")) as Record<string, string>).filter(
        ([, value]) => value !== "",
      ),
    );
    const names = [...new Set([...before.keys(), ...this.#values.keys()])];
    const changed = names.filter((name) => before.get(name) !== this.#values.get(name));
    const facts = { changedAt: Date.now(), by: `--env-file ${this.#path}` };
    const known = this.#facts;
    this.#facts = new Map(
      Array.from(this.#values.keys())
        .filter((name) => this.value(name) !== undefined)
        .map((name) => [name, changed.includes(name) ? { name, ...facts } : known.get(name)!]),
    );
    return changed;
  }

  value(name: string): string | undefined {
    const value = this.#values.get(name);
    return value === undefined || this.#faultOf(name, value) !== undefined ? undefined : value;
  }

  plainValue(name: string): string | undefined {
    return this.value(name) === undefined ? this.#values.get(name) : undefined;
  }

  get facts(): readonly SecretFacts[] {
    return [...this.#facts.values()];
  }

  howToSet(name: string): string {
    const value = this.#values.get(name);
    if (value !== undefined) return `${this.#path} gives it a value that it cannot have: ${this.#faultOf(name, value)}`;
    if (this.#path !== undefined) return `add a line ${name}=… to ${this.#path}`;
    const file = existsSync(BESIDE) ? BESIDE : "FILE";
    return `start berth dev with --env-file ${file}, where that file has a line ${name}=…`;
  }

  /** Gives servers the values of a changed file, until it is closed. */
  follow(berth: Pick<Berth, "secretChanged">): { close(): Promise<void> } {
    if (this.#path === undefined) return { close: async () => {} };
    const watcher = watch(this.#path, {
      ignoreInitial: true,
      awaitWriteFinish: { stabilityThreshold: 40, pollInterval: 10 },
    });
    const readAgain = async (): Promise<void> => {
      const changed = await this.read();
      for (const name of changed) berth.secretChanged(name);
      if (changed.length > 0) console.error(printable(`berth: ${this.#path}: ${changed.join(", ")} changed`));
    };
    watcher.on("all", () => {
      readAgain().catch((error: Error) => console.error(printable(`berth: ${error.message}`)));
    });
    return watcher;
  }

  #faultOf(name: string, value: string): string | undefined {
    return nameFault(name) ?? valueFault(value);
  }
}

/** The file that other tools read unasked. Berth does not: which secrets code gets is the person's own decision. */
const BESIDE = ".env";

function readFolders(texts: readonly string[]): DeclaredFolder[] {
  const problems = texts.filter((text) => !text.includes("=")).map((text) => `--folder: "${text}" has no path`);
  const named = texts.map((text) => [text.split("=")[0]!, { path: resolve(text.slice(text.indexOf("=") + 1)) }]);
  const folders = parseFolders(JSON.stringify(Object.fromEntries(named)), problems);
  if (problems.length === 0) return folders;
  const said = problems.map((problem) => problem.replace("BERTH_FOLDERS", "--folder")).join("; ");
  throw new BerthError("config_invalid", `${said}; write it as in --folder data=./data`);
}

function readHosts(text: string): AllowedHost[] {
  return text.split(",").map((each) => {
    if (existsSync(each.trim())) {
      const message = `--allow-net took the file ${each.trim()} for a host; write --allow-net behind the files, or --allow-net=HOST`;
      throw new BerthError("config_invalid", message);
    }
    const host = parseAllowedHost(each.trim());
    if (typeof host === "string") throw new BerthError("config_invalid", `--allow-net: ${host}`);
    return host;
  });
}
