import { entryBounds } from "../../entry/entry-bounds.ts";
import {
  CONFIG_CIDS_MAX,
  readConfigCid,
  unnamedEntry,
  type EntryReading,
  type ReadEntry,
  type ServerEntry,
} from "../../entry/entry.ts";
import { SCHEMA_KEY } from "../../entry/fields.ts";
import { parseMcps, entryReadBounds, readNamedEntry, unreadableMcps, type ParsedMcps } from "../../entry/mcps.ts";
import { decodeRecord, isCid, type Cid } from "../../lib/cid.ts";
import { yieldToCalls, createYielder } from "../../lib/event-loop.ts";
import { parseObjectYielding, countUnits } from "../../lib/json-spans.ts";
import { isObject, isSameJson, jsonText, type Json, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import type { NameChanges, Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import { hiddenOf, readVisibility, type Hidden } from "./visibility.ts";

/** Everything that a tenant's names say about its servers, before any of them is loaded. */
export interface Directory {
  readonly servers: ReadonlyMap<string, DirectoryEntry>;
  /** Problems of the `mcps` variable as a whole. */
  readonly problems: readonly Problem[];
  /** The variable as read; absent if reading the same value again may give something else. */
  readonly mcps?: ReadMcps | undefined;
}

export interface ReadMcps {
  /** The CID of the variable's value. */
  readonly cid: Cid;
  readonly entries: JsonObject;
}

export interface DirectoryEntry {
  readonly definition: Cid | undefined;
  readonly entry: ServerEntry;
  readonly enabled: boolean;
  /** Sorted; undefined when unknown, which refuses the server. */
  readonly hidden: Hidden;
  /** Problems of the entry; the server is served all the same unless it is refused. */
  readonly problems: readonly Problem[];
  readonly refused: boolean;
  /** The record under the server's own name. */
  readonly record?: ServerNameRecord;
}

interface ServerNameRecord {
  readonly cid: Cid;
  /** Undefined when the stored record cannot be read. */
  readonly definition: Cid | undefined;
  readonly enabled: boolean;
}

/** Everything that determines a server, as one text to compare. */
export function fingerprint({ definition, enabled, hidden, entry }: DirectoryEntry): string {
  return `${JSON.stringify([definition, enabled, hidden])}${jsonText(entry.raw)}`;
}

/** The last change of the store that a directory reflects; only for those that changes alone can bring up to date. */
const readUpTo = new WeakMap<Directory, number>();

/** The part of the store that a directory is read from. */
export type DirectoryStore = Pick<Store, "changesAfter" | "content" | "latestChange" | "name" | "names">;

/** The kinds of names that decide which servers exist and what each offers. */
const KINDS = ["variable", "server", "visibility"] as const;

/**
 * Reads a tenant's servers: the names of kind `server` and the entries of `mcps`; an entry's own definition takes
 * precedence. What is unchanged since `known` keeps its objects, and only what the store reports as changed is read
 * again: one server of thousands takes no longer than one of a few. `foreseen` is the value of `mcps`, if known without
 * reading it.
 */
export async function readDirectory(
  store: DirectoryStore,
  tenant: string,
  known: Directory = { servers: new Map(), problems: [] },
  foreseen: ReadMcps | undefined = known.mcps,
): Promise<Directory> {
  const since = readUpTo.get(known);
  const changes = since === undefined ? undefined : await store.changesAfter(tenant, KINDS, since);
  if (!changes) return readWhole(store, tenant, known, foreseen);
  const changed = changes.changed.filter(({ kind, name }) => kind !== "variable" || name === "mcps");
  const directory = changed.length === 0 ? known : await readChanged(store, tenant, known, changed, foreseen);
  if (directory) readUpTo.set(directory, changes.latest);
  return directory ?? readWhole(store, tenant, known, foreseen);
}

/**
 * Tells that the changes which `foreseen` was read with now have these numbers in the store. If nobody changed a name
 * since that reading, it reflects them all, and the next one begins after them; otherwise all of them are read again.
 */
export function markStored(foreseen: Directory, changes: readonly number[]): void {
  const [first, last] = [changes[0], changes.at(-1)];
  if (first !== undefined && readUpTo.get(foreseen) === first - 1) readUpTo.set(foreseen, last!);
}

/** A copy of the directory in which a server hides other names. */
export function withHidden(directory: Directory, server: string, hidden: readonly string[]): Directory {
  const listed = directory.servers.get(server);
  if (!listed) return directory;
  const now = { ...directory, servers: new Map(directory.servers).set(server, { ...listed, hidden }) };
  const upTo = readUpTo.get(directory);
  if (upTo !== undefined) readUpTo.set(now, upTo);
  return now;
}

async function readWhole(
  store: DirectoryStore,
  tenant: string,
  known: Directory,
  foreseen: ReadMcps | undefined,
): Promise<Directory> {
  // What changes during this reading is read again next time.
  const latest = await store.latestChange();
  const { entries, problems, unread, mcps, isSettled, unreadable } = await readMcps(store, tenant, foreseen);
  const named = await readServerNames(store, tenant, known);
  const hidden = await readVisibility(store, tenant);
  let directory = known;
  if (entries !== known.mcps?.entries || !isUnchanged(known, named, hidden)) {
    const names = [...new Set([...Object.keys(entries), ...named.keys()])].sort();
    const servers = new Map<string, DirectoryEntry>();
    const withoutEntry = unreadable ? unknownEntry(unreadable) : unnamed;
    const takeTurns = createYielder();
    for (const name of names) {
      await takeTurns();
      const before = known.servers.get(name);
      const isUnread = before === undefined || entries !== known.mcps?.entries;
      // A server's name may equal a member that every object has.
      const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
      const read = isUnread ? readEntryOf(name, entry, before, unread.get(name), withoutEntry) : before;
      servers.set(name, listedOf(name, read, named.get(name), hiddenIn(hidden, name), before));
    }
    directory = { servers, problems, mcps };
  }
  // Damaged content may be repaired without any change of a name.
  const isSound = !Array.from(directory.servers.values()).some(isDamaged);
  if (isSettled && isSound) readUpTo.set(directory, latest);
  return directory;
}

/** Undefined when a change refers to content that is missing now but may come later. */
async function readChanged(
  store: DirectoryStore,
  tenant: string,
  known: Directory,
  changed: NameChanges["changed"],
  foreseen: ReadMcps | undefined,
): Promise<Directory | undefined> {
  const isMcps = changed.some(({ kind }) => kind === "variable");
  const read = isMcps ? await readMcps(store, tenant, foreseen) : undefined;
  if (read && !read.isSettled) return undefined;
  const servers = new Map(known.servers);
  const takeTurns = createYielder();
  let differs = false;
  let isNew = false;
  const put = (name: string, listed: DirectoryEntry | undefined): void => {
    const before = servers.get(name);
    if (before === listed) return;
    differs = true;
    isNew ||= before === undefined;
    if (listed) servers.set(name, listed);
    else servers.delete(name);
  };

  if (read) {
    const { entries, unread } = read;
    for (const name of Object.keys(entries)) {
      await takeTurns();
      const before = servers.get(name);
      if (before && entries[name] === known.mcps?.entries[name]) continue;
      const hidden = before ? before.hidden : await hiddenOf(store, tenant, name);
      const read = readEntryOf(name, entries[name], before, unread.get(name));
      put(name, listedOf(name, read, before?.record, hidden, before));
    }
    for (const [name, before] of known.servers) {
      await takeTurns();
      if (before.entry === unnamedEntry || Object.hasOwn(entries, name)) continue;
      put(name, before.record && listedOf(name, unnamed, before.record, before.hidden, before));
    }
  }
  for (const { kind, name } of changed) {
    await takeTurns();
    if (kind === "variable") continue;
    const before = servers.get(name);
    const moved = kind === "server" ? await store.name(tenant, kind, name) : before?.record;
    const record = moved && (await recordOf(store, tenant, moved.cid, before?.record));
    if (record && record.definition === undefined) return undefined;
    const hidden = kind === "server" && before ? before.hidden : await hiddenOf(store, tenant, name);
    const isNamed = record !== undefined || (before !== undefined && before.entry !== unnamedEntry);
    put(name, isNamed ? listedOf(name, before ?? unnamed, record, hidden, before) : undefined);
  }
  if (!differs && !read) return known;
  const { problems, mcps } = read ?? known;
  return { servers: isNew ? inOrder(servers) : servers, problems, mcps };
}

function inOrder(servers: ReadonlyMap<string, DirectoryEntry>): Map<string, DirectoryEntry> {
  return new Map([...servers.keys()].sort().map((name) => [name, servers.get(name)!]));
}

/** The directory entry of a server; the object `before` when nothing changed. */
function listedOf(
  name: string,
  read: ReadEntry,
  record: ServerNameRecord | undefined,
  hidden: Hidden,
  before: DirectoryEntry | undefined,
): DirectoryEntry {
  // The problems of a record that was damaged are not the entry's own.
  const { entry, problems, refused } = read === before && isDamaged(before) ? ownOf(name, read.entry) : read;
  const lacksRecord = record !== undefined && record.definition === undefined;
  const listed: DirectoryEntry = {
    definition: entry.definition ?? record?.definition,
    entry,
    enabled: entry.enabled && (record?.enabled ?? true),
    hidden,
    problems: [
      ...problems,
      ...(lacksRecord ? [damagedRecord(name, record.cid)] : []),
      ...(hidden ? [] : [damagedVisibility(name)]),
    ],
    // When the entry names its definition, the record is not needed.
    refused: refused || !hidden || (lacksRecord && entry.definition === undefined),
    ...(record && { record }),
  };
  return before && isSame(before, listed) ? before : listed;
}

/** True when everything but the entries is as it was. */
function isUnchanged(
  known: Directory,
  named: ReadonlyMap<string, ServerNameRecord>,
  hidden: ReadonlyMap<string, Hidden>,
): boolean {
  let records = 0;
  for (const [name, listed] of known.servers) {
    if (listed.record !== named.get(name) || !areSame(listed.hidden, hiddenIn(hidden, name))) return false;
    if (listed.record) records += 1;
  }
  return records === named.size;
}

function ownOf(name: string, entry: ServerEntry): ReadEntry {
  return entry === unnamedEntry ? unnamed : readNamedEntry(name, entry.raw);
}

function hiddenIn(hidden: ReadonlyMap<string, Hidden>, name: string): Hidden {
  return hidden.has(name) ? hidden.get(name) : nothing;
}

function isDamaged({ record, hidden }: DirectoryEntry): boolean {
  return hidden === undefined || (record !== undefined && record.definition === undefined);
}

function damagedRecord(server: string, cid: Cid): Problem {
  const what = `The stored record of the server "${server}" is damaged (${cid})`;
  return {
    code: STORED_DAMAGED,
    message: `${what}: save its definition again, or restore a backup`,
    severity: "error",
  };
}

/** Any of its tools may be one to hide. */
function damagedVisibility(server: string): Problem {
  const what = `The stored list of the tools and prompts that the server "${server}" hides is damaged`;
  const message = `${what}: save its definition again to show all of them, or restore a backup`;
  return { code: STORED_DAMAGED, message, severity: "error" };
}

const STORED_DAMAGED = "stored-damaged";
const nothing: readonly never[] = [];
const unnamed: ReadEntry = { entry: unnamedEntry, problems: nothing, refused: false };

/** While no entry can be read, it is unknown what a server may do and if it is served at all. */
function unknownEntry({ code, message }: Problem): ReadEntry {
  const problem: Problem = { code, message: `Its grants cannot be read: ${message}`, severity: "error" };
  return { entry: unnamedEntry, problems: [problem], refused: true };
}

function readEntryOf(
  name: string,
  raw: Json | undefined,
  before: DirectoryEntry | undefined,
  options: EntryReading | undefined,
  withoutEntry = unnamed,
): ReadEntry {
  if (raw === undefined) return withoutEntry;
  // The raw JSON of a wrong entry is not kept.
  const isKnown = before?.problems.length === 0 && isSameJson(before.entry.raw, raw);
  return isKnown ? before : readNamedEntry(name, raw, options);
}

/** `enabled` and `definition` follow from what is compared here. */
function isSame(before: DirectoryEntry, now: DirectoryEntry): boolean {
  const { entry, record, hidden } = now;
  const isAsRefused = before.refused === now.refused;
  return isAsRefused && before.entry === entry && before.record === record && areSame(before.hidden, hidden);
}

function areSame(before: Hidden, now: Hidden): boolean {
  if (!before || !now) return before === now;
  return before.length === now.length && now.every((name, index) => before[index] === name);
}

interface McpsReading extends Omit<ParsedMcps, "tooLong"> {
  /** Why each of the entries that are null was not read. */
  readonly unread: ReadonlyMap<string, EntryReading>;
  /** Undefined if reading the same value again may give something else, or an entry is stored elsewhere. */
  readonly mcps: ReadMcps | undefined;
  /** True when all content that it refers to is there. */
  readonly isSettled: boolean;
}

/** The variable's value is the configuration itself, or its CID. */
async function readMcps(store: DirectoryStore, tenant: string, known: ReadMcps | undefined): Promise<McpsReading> {
  const record = await store.name(tenant, "variable", "mcps");
  const whole = { problems: [], unread: new Map<string, EntryReading>(), isSettled: true };
  if (!record) return { ...whole, entries: {}, mcps: undefined };
  if (known?.cid === record.cid && Object.keys(known.entries).length <= entryBounds.mcpsEntries) {
    return { ...whole, entries: known.entries, mcps: known };
  }
  const text = await textOf(store, tenant, record.cid);
  const cid = text !== undefined && isCid(text.trim()) ? text.trim() : record.cid;
  const referred = cid === record.cid ? text : await textOf(store, tenant, cid);
  const parsed = referred === undefined ? damagedMcps(cid) : await parseMcps(referred);
  await yieldToCalls();
  // Missing content may come later.
  let isSettled = parsed.unreadable === undefined;
  let isWhole = parsed.problems.length === 0 && parsed.tooLong.size === 0;
  const unread = new Map<string, EntryReading>(Array.from(parsed.tooLong, (name) => [name, { isTooLong: true }]));
  const takeTurns = createYielder();
  const contents = new Map<Cid, Referred>();
  let room = entryBounds.mcpsBytes;
  for (const server of Object.keys(parsed.entries)) {
    const raw = parsed.entries[server];
    const first = readConfigCid(raw);
    if (first === undefined) continue;
    await takeTurns();
    isWhole = false;
    const referred = room < 0 ? undefined : await referredBy(first);
    // Content counts for each entry that refers to it: each holds its own result.
    room -= referred?.bytes ?? 0;
    if (room < 0) unread.set(server, { roomBytes: entryBounds.mcpsBytes });
    else if (referred?.value === "too long") unread.set(server, { isTooLong: true });
    // An entry whose CID leads nowhere stays as it is, and reading it reports the CID.
    parsed.entries[server] = unread.has(server) ? null : ((referred?.value as JsonObject | undefined) ?? raw!);
  }
  return { ...parsed, unread, mcps: isWhole ? { cid: record.cid, entries: parsed.entries } : undefined, isSettled };

  /** Follows a `config_cid`, and any that it leads to, to the entry. */
  async function referredBy(first: Cid): Promise<Referred> {
    let [cid, bytes] = [first, 0];
    for (let followed = 1; ; followed++) {
      let referred = contents.get(cid);
      if (!referred) contents.set(cid, (referred = await readReferred(store, tenant, cid)));
      isSettled &&= referred.isThere;
      bytes += referred.bytes;
      const next = readConfigCid(referred.value);
      if (next === undefined) return { ...referred, bytes };
      if (followed === CONFIG_CIDS_MAX) return { ...referred, bytes, value: undefined };
      cid = next;
    }
  }
}

interface Referred {
  readonly isThere: boolean;
  readonly bytes: number;
  /** Undefined when it is not an entry. */
  readonly value: JsonObject | "too long" | undefined;
}

async function readReferred(store: DirectoryStore, tenant: string, cid: Cid): Promise<Referred> {
  const text = await textOf(store, tenant, cid);
  if (text === undefined) return { isThere: false, bytes: 0, value: undefined };
  const there = { isThere: true, bytes: Buffer.byteLength(text) };
  if (there.bytes > entryBounds.mcpsBytes) return { ...there, value: undefined };
  const { variableBytes } = entryBounds;
  if (there.bytes > variableBytes && countUnits(text) > variableBytes) return { ...there, value: "too long" };
  const { value, tooMuch } = await parseObjectYielding(text, entryReadBounds()).catch(() => nowhere);
  if (tooMuch) return { ...there, value: "too long" };
  if (!isObject(value)) return { ...there, value: undefined };
  const { [SCHEMA_KEY]: _, ...entry } = value as JsonObject;
  return { ...there, value: entry };
}

const nowhere: Awaited<ReturnType<typeof parseObjectYielding>> = { value: undefined };

/** A person can save the variable again. */
function damagedMcps(cid: Cid): ParsedMcps {
  const what = `The stored variable mcps is damaged (${cid})`;
  const message = `${what}: save it again, restore one of its versions, or restore a backup`;
  return unreadableMcps([{ code: STORED_DAMAGED, message, severity: "error" }]);
}

/** Undefined when it is missing or damaged on disk. */
async function textOf(store: DirectoryStore, tenant: string, cid: Cid): Promise<string | undefined> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  return bytes && new TextDecoder().decode(bytes);
}

async function readServerNames(
  store: DirectoryStore,
  tenant: string,
  known: Directory,
): Promise<Map<string, ServerNameRecord>> {
  const servers = new Map<string, ServerNameRecord>();
  const takeTurns = createYielder();
  for (const { name, cid } of await store.names(tenant, "server")) {
    await takeTurns();
    const record = await recordOf(store, tenant, cid, known.servers.get(name)?.record);
    servers.set(name, record);
  }
  return servers;
}

async function recordOf(
  store: DirectoryStore,
  tenant: string,
  cid: Cid,
  before: ServerNameRecord | undefined,
): Promise<ServerNameRecord> {
  if (before?.cid === cid && before.definition !== undefined) return before;
  const bytes = await unlessDamaged(store.content(tenant, cid));
  const record = bytes && decodeRecord(bytes);
  if (!isObject(record) || typeof record["definition"] !== "string") {
    // A record that is still damaged keeps its object.
    return before?.cid === cid ? before : { cid, definition: undefined, enabled: true };
  }
  return { cid, definition: record["definition"], enabled: record["enabled"] !== false };
}
