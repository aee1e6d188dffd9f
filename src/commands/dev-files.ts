import { stat } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { jsonBlock, type Cid } from "../lib/cid.ts";
import type { Limits } from "../limits/limits.ts";
import { gatherDefinition } from "../discover/gather.ts";
import { BerthError } from "../lib/errors.ts";
import { packDefinition, type PackedDefinition } from "../image/definition.ts";
import { serverNameProblem } from "../entry/fields.ts";
import type { ServerRecord } from "../image/image.ts";
import type { Problem } from "../lib/problem.ts";
import type { Store } from "../store/store.ts";

/** A definition that is served straight from its file. */
export interface FileServer {
  /** The file's name without its ending. */
  readonly name: string;
  /** The path as the person wrote it. */
  readonly path: string;
}

/**
 * The servers that the files define, by name. Throws `config_invalid` with everything that is wrong: a missing file,
 * one of another kind, an invalid server name, and two files of one name.
 */
export async function fileServers(paths: readonly string[]): Promise<FileServer[]> {
  const servers: FileServer[] = [];
  const wrong: string[] = [];
  for (const path of paths) {
    const name = basename(path, extname(path));
    const fault = (await faultOfFile(path)) ?? serverNameProblem(name);
    const twin = servers.find((server) => server.name === name);
    if (fault) wrong.push(`${path}: ${fault}`);
    else if (twin) wrong.push(`${path}: ${twin.path} is the server "${name}" already`);
    else servers.push({ name, path });
  }
  if (wrong.length > 0) throw new BerthError("config_invalid", wrong.join("; "));
  return servers;
}

async function faultOfFile(path: string): Promise<string | undefined> {
  if (![".ts", ".sh"].includes(extname(path))) return "a definition is a .ts or a .sh file";
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return `there is no such file; \`berth dev --new ${path}\` makes one to begin with`;
  return stats.isFile() ? undefined : "this is not a file";
}

/** Reads files as definitions and brings the names of a store to them. */
export class DevFiles {
  readonly #store: Store;
  readonly #tenant: string;
  readonly #limits: Limits;
  readonly #held = new Map<string, Cid>();

  constructor(store: Store, tenant: string, limits: Limits) {
    this.#store = store;
    this.#tenant = tenant;
    this.#limits = limits;
  }

  /** The absolute paths of all current files of the definition, and if it has changed. */
  async read({ name, path }: FileServer): Promise<{ files: string[]; changed: boolean }> {
    const folder = dirname(resolve(path));
    const entry = basename(path);
    const { files } = await gatherDefinition(folder, entry, this.#limits);
    // The compiler misses an unreadable file as well, and reports where.
    const definition = packDefinition(entry, { [entry]: "", ...files });
    const changed = this.#held.get(name) !== definition.cid;
    if (changed) await this.#name(name, definition);
    return { files: [entry, ...Object.keys(files)].map((file) => join(folder, file)), changed };
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

/** Problems with the person's own file names: a definition of one file is compiled under its server's name. */
export function inOwnFiles(problems: readonly Problem[], server: FileServer): Problem[] {
  return problems.map((problem) => {
    if (problem.file === undefined) return problem;
    return { ...problem, file: inOwnFolder(problem.file, server) };
  });
}

/** A file of a definition, relative to the person's working folder. */
export function inOwnFolder(file: string, { path }: FileServer): string {
  return relative(process.cwd(), join(dirname(resolve(path)), file));
}
