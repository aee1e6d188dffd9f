import { decodeJson, isCid, type Cid } from "../cid.ts";
import { isObject, type Json } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { Store } from "../store/store.ts";
import { turnTaker } from "../turns.ts";
import { unnamedEntry, type ReadEntry, type ServerEntry } from "./config/entry.ts";
import { parseMcps, readNamedEntry } from "./config/mcps.ts";
import { readVisibility } from "./visibility.ts";

/** Everything that a tenant's names say about its servers, before any of them is loaded. */
export interface Directory {
  readonly servers: ReadonlyMap<string, DirectoryEntry>;
  /** What is wrong with the `mcps` variable as a whole. */
  readonly problems: readonly Problem[];
}

export interface DirectoryEntry {
  readonly definition: Cid | undefined;
  readonly entry: ServerEntry;
  readonly enabled: boolean;
  /** Names of tools and prompts that the server's functions have hidden, sorted. */
  readonly hidden: readonly string[];
  /** What is wrong with the entry; it is served all the same unless it is refused. */
  readonly problems: readonly Problem[];
  readonly refused: boolean;
}

/** All that a server is made of, to compare it with what it was. */
export function saidOf({ definition, enabled, hidden, entry }: DirectoryEntry): string {
  return JSON.stringify([definition, enabled, hidden, entry.raw]);
}

/** Servers are the names of kind `server` and the entries of `mcps`; an entry's own definition goes first. */
export async function readDirectory(store: Store, tenant: string): Promise<Directory> {
  const { entries, problems } = await readMcps(store, tenant);
  const named = await readServerNames(store, tenant);
  const hidden = await readVisibility(store, tenant);
  const names = [...new Set([...Object.keys(entries), ...named.keys()])].sort();

  const servers = new Map<string, DirectoryEntry>();
  const takeTurns = turnTaker();
  for (const name of names) {
    await takeTurns();
    const raw = entries[name];
    const read: ReadEntry = raw === undefined ? unnamed : readNamedEntry(name, raw);
    const record = named.get(name);
    const definition = read.entry.definition ?? record?.definition;
    const enabled = read.entry.enabled && (record?.enabled ?? true);
    servers.set(name, {
      definition,
      entry: read.entry,
      enabled,
      hidden: hidden.get(name) ?? [],
      problems: read.problems,
      refused: read.refused,
    });
  }
  return { servers, problems };
}

const unnamed: ReadEntry = { entry: unnamedEntry, problems: [], refused: false };

/** The variable's value is the configuration itself, or the CID of it. */
async function readMcps(store: Store, tenant: string): Promise<ReturnType<typeof parseMcps>> {
  const record = await store.name(tenant, "variable", "mcps");
  if (!record) return { entries: {}, problems: [] };
  const text = await textOf(store, tenant, record.cid);
  const parsed = isCid(text.trim()) ? parseMcps(await textOf(store, tenant, text.trim())) : parseMcps(text);
  const takeTurns = turnTaker();
  for (const server of Object.keys(parsed.entries)) {
    await takeTurns();
    parsed.entries[server] = await entryOf(parsed.entries[server]);
  }
  return parsed;

  /** What an entry's `config_cid` leads to, which may be another one. Content addresses cannot form a circle. */
  async function entryOf(raw: Json | undefined): Promise<Json> {
    if (!isObject(raw) || typeof raw["config_cid"] !== "string") return raw ?? null;
    const referred = parseMcps(await textOf(store, tenant, raw["config_cid"]));
    // An entry whose CID leads nowhere stays as it is, and reading it reports the CID.
    return referred.problems.length === 0 ? entryOf(referred.entries) : raw;
  }
}

async function textOf(store: Store, tenant: string, cid: Cid): Promise<string> {
  const bytes = await store.content(tenant, cid);
  return bytes ? new TextDecoder().decode(bytes) : "";
}

async function readServerNames(
  store: Store,
  tenant: string,
): Promise<Map<string, { definition: Cid; enabled: boolean }>> {
  const servers = new Map<string, { definition: Cid; enabled: boolean }>();
  const takeTurns = turnTaker();
  for (const { name, cid } of await store.names(tenant, "server")) {
    await takeTurns();
    const bytes = await store.content(tenant, cid);
    const record = bytes && decodeJson(bytes);
    if (!isObject(record) || typeof record["definition"] !== "string") continue;
    servers.set(name, { definition: record["definition"], enabled: record["enabled"] !== false });
  }
  return servers;
}
