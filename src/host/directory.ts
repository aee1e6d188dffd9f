import { decodeJson, isCid, type Cid } from "../cid.ts";
import { isObject, isSameJson, type Json, type JsonObject } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { Store } from "../store/store.ts";
import { nextTurn, turnTaker } from "../turns.ts";
import { unnamedEntry, type ReadEntry, type ServerEntry } from "./config/entry.ts";
import { parseMcps, readNamedEntry } from "./config/mcps.ts";
import { readVisibility } from "./visibility.ts";

/** Everything that a tenant's names say about its servers, before any of them is loaded. */
export interface Directory {
  readonly servers: ReadonlyMap<string, DirectoryEntry>;
  /** What is wrong with the `mcps` variable as a whole. */
  readonly problems: readonly Problem[];
  /** The variable as it was read, where another reading of the same value would give the same. */
  readonly mcps?: ReadMcps | undefined;
}

export interface ReadMcps {
  /** Of the variable's value. */
  readonly cid: Cid;
  readonly entries: JsonObject;
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
  /** The record under the server's own name. */
  readonly record?: ServerNameRecord;
}

interface ServerNameRecord {
  readonly cid: Cid;
  readonly definition: Cid;
  readonly enabled: boolean;
}

/** All that a server is made of, to compare it with what it was. */
export function saidOf({ definition, enabled, hidden, entry }: DirectoryEntry): string {
  return JSON.stringify([definition, enabled, hidden, entry.raw]);
}

/**
 * Servers are the names of kind `server` and the entries of `mcps`; an entry's own definition goes first. Of what is
 * said as it was when `known` was read the same objects are given again: a change of one server of thousands takes
 * little more than looking that up. `mcps` is what the variable says where that is known without reading it.
 */
export async function readDirectory(
  store: Store,
  tenant: string,
  known: Directory = { servers: new Map(), problems: [] },
  foreseen: ReadMcps | undefined = known.mcps,
): Promise<Directory> {
  const { entries, problems, mcps } = await readMcps(store, tenant, foreseen);
  const named = await readServerNames(store, tenant, known);
  const hidden = await readVisibility(store, tenant);
  if (entries === known.mcps?.entries && isUnchanged(known, named, hidden)) return known;
  const names = [...new Set([...Object.keys(entries), ...named.keys()])].sort();

  const servers = new Map<string, DirectoryEntry>();
  const takeTurns = turnTaker();
  for (const name of names) {
    await takeTurns();
    const before = known.servers.get(name);
    const isUnread = before === undefined || entries !== known.mcps?.entries;
    const { entry, problems, refused } = isUnread ? readEntryOf(name, entries[name], before) : before;
    const record = named.get(name);
    const listed: DirectoryEntry = {
      definition: entry.definition ?? record?.definition,
      entry,
      enabled: entry.enabled && (record?.enabled ?? true),
      hidden: hidden.get(name) ?? nothing,
      problems,
      refused,
      ...(record && { record }),
    };
    servers.set(name, before && isSame(before, listed) ? before : listed);
  }
  return { servers, problems, mcps };
}

/** True where nothing but the entries could say anything else than it did. */
function isUnchanged(
  known: Directory,
  named: ReadonlyMap<string, ServerNameRecord>,
  hidden: ReadonlyMap<string, readonly string[]>,
): boolean {
  let records = 0;
  for (const [name, listed] of known.servers) {
    if (listed.record !== named.get(name) || !areSame(listed.hidden, hidden.get(name) ?? nothing)) return false;
    if (listed.record) records += 1;
  }
  return records === named.size;
}

const nothing: readonly never[] = [];
const unnamed: ReadEntry = { entry: unnamedEntry, problems: nothing, refused: false };

function readEntryOf(name: string, raw: Json | undefined, before: DirectoryEntry | undefined): ReadEntry {
  if (raw === undefined) return unnamed;
  // Of a wrong entry it is not kept what was written.
  const isKnown = before?.problems.length === 0 && isSameJson(before.entry.raw, raw);
  return isKnown ? before : readNamedEntry(name, raw);
}

/** Enabled or not, and with which definition, follows from the rest. */
function isSame(before: DirectoryEntry, now: DirectoryEntry): boolean {
  const { entry, record, hidden } = now;
  return before.entry === entry && before.record === record && areSame(before.hidden, hidden);
}

function areSame(before: readonly string[], now: readonly string[]): boolean {
  return before.length === now.length && now.every((name, index) => before[index] === name);
}

/** The variable's value is the configuration itself, or the CID of it. */
async function readMcps(
  store: Store,
  tenant: string,
  known: ReadMcps | undefined,
): Promise<ReturnType<typeof parseMcps> & Pick<Directory, "mcps">> {
  const record = await store.name(tenant, "variable", "mcps");
  if (!record) return { entries: {}, problems: [] };
  if (known?.cid === record.cid) return { entries: known.entries, problems: [], mcps: known };
  const text = await textOf(store, tenant, record.cid);
  const parsed = isCid(text.trim()) ? parseMcps(await textOf(store, tenant, text.trim())) : parseMcps(text);
  await nextTurn();
  // What is not there may be another time.
  let isWhole = parsed.problems.length === 0;
  const takeTurns = turnTaker();
  for (const server of Object.keys(parsed.entries)) {
    const raw = parsed.entries[server];
    if (!isObject(raw) || !Object.hasOwn(raw, "config_cid")) continue;
    await takeTurns();
    isWhole = false;
    parsed.entries[server] = await entryOf(raw);
  }
  return { ...parsed, mcps: isWhole ? { cid: record.cid, entries: parsed.entries } : undefined };

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

async function readServerNames(store: Store, tenant: string, known: Directory): Promise<Map<string, ServerNameRecord>> {
  const servers = new Map<string, ServerNameRecord>();
  const takeTurns = turnTaker();
  for (const { name, cid } of await store.names(tenant, "server")) {
    await takeTurns();
    const before = known.servers.get(name)?.record;
    const record = before?.cid === cid ? before : await readRecord(store, tenant, cid);
    if (record) servers.set(name, record);
  }
  return servers;
}

async function readRecord(store: Store, tenant: string, cid: Cid): Promise<ServerNameRecord | undefined> {
  const bytes = await store.content(tenant, cid);
  const record = bytes && decodeJson(bytes);
  if (!isObject(record) || typeof record["definition"] !== "string") return undefined;
  return { cid, definition: record["definition"], enabled: record["enabled"] !== false };
}
