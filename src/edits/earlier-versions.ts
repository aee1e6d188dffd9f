import type { Contract } from "../contract/contract.ts";
import { sanitizeContract } from "../contract/sanitize.ts";
import { readConfigCid } from "../entry/entry.ts";
import { mcpsReadBounds } from "../entry/mcps.ts";
import type { ReleaseParts } from "../host/catalog/release.ts";
import { loadStoredDefinition } from "../image/definition.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { decodeJsonYielding, decodeRecord, isCid, rawBlock, type Cid } from "../lib/cid.ts";
import type { Draft } from "../lib/draft.ts";
import { yieldToCalls, createYielder } from "../lib/event-loop.ts";
import { isObject, isSameJson, type Json } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import type { NameChange, Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import type { Subject, Version } from "./edits.ts";
import { entryText, readRawEntries, resolveEntry, textAt, type RawEntries } from "./mcps-text.ts";

/** Earlier versions of subjects, from the histories of their names. */
export interface Past {
  /** The latest versions, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** Undefined if the subject never had this version, or its content was deleted. */
  draft(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
}

/** The most versions listed of one subject, since repeated saves create any number. Earlier ones are found by CID. */
const VERSIONS_MAX = 1_000;

export function openPast(store: Store, { pastEntriesBytes }: Pick<Limits, "pastEntriesBytes">): Past {
  const entries = new PastEntries(store, pastEntriesBytes);
  /** The definitions of entries that `config_cid` refers to: an entry may have had thousands. */
  const referredDefinitions = new BoundedMap<string, Cid | null>(REFERRED_MAX);

  async function entryHistory(tenant: string, server: string): Promise<Version[]> {
    const versions: Version[] = [];
    const yieldIfDue = createYielder();
    for (const { cid, changedAt, by } of await entries.changes(tenant, server)) {
      await yieldIfDue();
      versions.push({ cid, changedAt, by });
    }
    return dropUnchanged(versions);
  }

  /** A definition is named by the entry, or else by the server's own record. */
  async function definitionHistory(tenant: string, server: string): Promise<Version[]> {
    const records = (await store.history(tenant, "server", server, CHANGES_MAX)).toReversed();
    const recorded = new Map<Cid, Cid | null>();
    const readRecord = async (cid: Cid | null): Promise<Cid | null> => {
      if (cid === null) return null;
      if (!recorded.has(cid)) recorded.set(cid, await recordDefinition(tenant, cid));
      return recorded.get(cid) ?? null;
    };
    const oldestFirst = [...records, ...(await entries.changes(tenant, server))].sort(
      (a, b) => a.changedAt - b.changedAt,
    );
    const versions: Version[] = [];
    let fromRecord: Cid | null = null;
    let fromEntry: Cid | null = null;
    const yieldIfDue = createYielder();
    for (const [index, change] of oldestFirst.entries()) {
      await yieldIfDue();
      const { changedAt, by } = change;
      if (isEntryChange(change)) fromEntry = await entryDefinition(tenant, change);
      else fromRecord = await readRecord(change.cid);
      // One change may have moved both names.
      if (oldestFirst[index + 1]?.changedAt === changedAt) continue;
      versions.push({ cid: fromEntry ?? fromRecord, changedAt, by });
    }
    return dropUnchanged(versions);
  }

  async function recordDefinition(tenant: string, cid: Cid): Promise<Cid | null> {
    const bytes = await unlessDamaged(store.content(tenant, cid));
    const record = bytes && decodeRecord(bytes);
    return isObject(record) ? definitionIn(record) : null;
  }

  async function entryDefinition(tenant: string, { definition, referred }: EntryChange): Promise<Cid | null> {
    if (referred === undefined) return definition;
    const key = `${tenant} ${referred}`;
    const cached = referredDefinitions.get(key);
    if (cached !== undefined) return cached;
    const { entry } = await resolveEntry(store, tenant, { config_cid: referred });
    const resolved = isObject(entry) ? definitionIn(entry) : null;
    referredDefinitions.set(key, resolved);
    return resolved;
  }

  async function history(tenant: string, { kind, name }: Subject): Promise<readonly Version[]> {
    switch (kind) {
      case "variable":
        return store.history(tenant, "variable", name, VERSIONS_MAX);
      case "definition":
        return (await definitionHistory(tenant, name)).slice(0, VERSIONS_MAX);
      case "entry":
        return (await entryHistory(tenant, name)).slice(0, VERSIONS_MAX);
    }
  }

  async function entryAt(tenant: string, server: string, cid: Cid): Promise<Draft | undefined> {
    const change = (await entries.changes(tenant, server)).find((each) => each.cid === cid);
    const text = change && (await entries.text(tenant, server, change));
    return text === undefined ? undefined : singleText(server, text);
  }

  return {
    history,
    async draft(tenant, subject, cid) {
      const { kind, name } = subject;
      if (kind === "entry") return entryAt(tenant, name, cid);
      if (kind === "variable") {
        const isKnown = await store.had(tenant, "variable", name, cid);
        return isKnown ? singleText(name, await textAt(store, tenant, cid)) : undefined;
      }
      if (!(await definitionHistory(tenant, name)).some((version) => version.cid === cid)) return undefined;
      const { entry, files } = await loadStoredDefinition(store, tenant, cid, name);
      return { entry, files };
    },
  };
}

/** A change of an entry. Its source is in a value of `mcps`, and is read from there on demand. */
interface EntryChange extends Pick<NameChange, "changedAt" | "by"> {
  /** CID of its source; null if the entry was removed. */
  readonly cid: Cid | null;
  /** CID of the value of `mcps` that contains it. */
  readonly value: Cid | null;
  readonly definition: Cid | null;
  /** The content that its `config_cid` names. */
  readonly referred: Cid | undefined;
}

function isEntryChange(change: NameChange | EntryChange): change is EntryChange {
  return "value" in change;
}

/**
 * The history of each server's entry. Every earlier value of the variable is parsed once, yielding to other calls, and
 * only changes of entries are stored: a value has thousands of entries, and a save changes one of them.
 */
class PastEntries {
  readonly #store: Store;
  readonly #bytesMax: number;
  /** By tenant, the most recently used last. */
  readonly #walks = new Map<string, Walk>();
  readonly #walking = new Map<string, Promise<Walk>>();

  constructor(store: Store, bytesMax: number) {
    this.#store = store;
    this.#bytesMax = bytesMax;
  }

  /** Oldest first. Changes in a damaged value are missing. */
  async changes(tenant: string, server: string): Promise<readonly EntryChange[]> {
    const walking = (this.#walking.get(tenant) ?? Promise.resolve()).then(
      () => this.#walk(tenant),
      () => this.#walk(tenant),
    );
    this.#walking.set(tenant, walking);
    try {
      const walk = await walking;
      return [...(walk.changes.get(server) ?? [])];
    } finally {
      if (this.#walking.get(tenant) === walking) this.#walking.delete(tenant);
    }
  }

  /** The source of an entry after a change. */
  async text(tenant: string, server: string, { value }: EntryChange): Promise<string | undefined> {
    const raw = value === null ? undefined : (await this.#read(tenant, value))?.get(server);
    return raw === undefined ? undefined : entryText(raw);
  }

  async #walk(tenant: string): Promise<Walk> {
    const cached = this.#walks.get(tenant);
    this.#walks.delete(tenant);
    const walk = await this.#continue(tenant, cached && !(await this.#isRepaired(tenant, cached)) ? cached : newWalk());
    await this.#dropEarliest(walk);
    this.#walks.set(tenant, walk);
    let bytes = 0;
    for (const each of this.#walks.values()) bytes += each.bytes;
    for (const [oldest, each] of this.#walks) {
      if (bytes <= this.#bytesMax || oldest === tenant) break;
      this.#walks.delete(oldest);
      bytes -= each.bytes;
    }
    return walk;
  }

  /** Damaged content may be repaired without a change of any name. */
  async #isRepaired(tenant: string, { damaged }: Walk): Promise<boolean> {
    for (const cid of damaged) if (await this.#read(tenant, cid)) return true;
    return false;
  }

  /** Reads the values since the last walk; starts over if the history was replaced, as after an import. */
  async #continue(tenant: string, previous: Walk): Promise<Walk> {
    const { isNew, changes } = await this.#changesAfter(tenant, previous.last);
    const walk = isNew ? newWalk() : previous;
    const yieldIfDue = createYielder();
    // Saves may alternate between two values.
    const parsed = new BoundedMap<Cid, RawEntries | undefined>(2);
    for (const change of changes) {
      const { cid } = change;
      if (cid !== null && !parsed.has(cid)) parsed.set(cid, await this.#read(tenant, cid));
      const entries = cid === null ? nothing : parsed.get(cid);
      walk.last = change;
      if (cid !== null && !entries) walk.damaged.push(cid);
      if (!entries) continue;
      for (const name of entries.keys()) {
        await yieldIfDue();
        recordChange(walk, name, entries.get(name), change);
      }
      for (const name of walk.entries.keys()) {
        await yieldIfDue();
        if (!entries.has(name)) recordChange(walk, name, undefined, change);
      }
    }
    return walk;
  }

  /** Oldest first. Reads few at first: a history may be long, and usually there is at most one new change. */
  async #changesAfter(
    tenant: string,
    last: NameChange | undefined,
  ): Promise<{ readonly isNew: boolean; readonly changes: readonly NameChange[] }> {
    for (let max = last ? 32 : WALKED_MAX; ; max = Math.min(WALKED_MAX, max * 16)) {
      const latest = await this.#store.history(tenant, "variable", "mcps", max);
      const at = last ? latest.findIndex((each) => isSame(each, last)) : -1;
      if (at >= 0) return { isNew: false, changes: latest.slice(0, at).toReversed() };
      if (latest.length < max || max === WALKED_MAX) return { isNew: true, changes: latest.toReversed() };
    }
  }

  /** Drops the oldest changes of each entry until they fit into the budget. */
  async #dropEarliest(walk: Walk): Promise<void> {
    const yieldIfDue = createYielder();
    while (walk.bytes > this.#bytesMax && walk.maxPerEntry > 1) {
      walk.maxPerEntry = Math.ceil(walk.maxPerEntry / 2);
      for (const changes of walk.changes.values()) {
        await yieldIfDue();
        const dropped = changes.splice(0, changes.length - walk.maxPerEntry);
        walk.bytes -= dropped.length * CHANGE_BYTES;
      }
    }
  }

  /** Undefined for a missing or damaged value. */
  async #read(tenant: string, variable: Cid): Promise<RawEntries | undefined> {
    const bytes = await unlessDamaged(this.#store.content(tenant, variable));
    if (!bytes) return undefined;
    await yieldToCalls();
    const text = Buffer.from(bytes).toString();
    const referred = text.trim();
    const value = isCid(referred) ? await unlessDamaged(textAt(this.#store, tenant, referred)) : text;
    if (value === undefined) return undefined;
    const entries = (await readRawEntries(value, mcpsReadBounds())) ?? nothing;
    await yieldToCalls();
    return entries;
  }
}

/** The most changes of `mcps` to search. */
const WALKED_MAX = 20_000;

function isSame(one: NameChange, other: NameChange): boolean {
  return one.cid === other.cid && one.changedAt === other.changedAt && one.by === other.by;
}

/** These take some megabytes. */
const REFERRED_MAX = 20_000;

/** The progress of reading values, starting with the oldest. */
interface Walk {
  last: NameChange | undefined;
  /** The memory that all changes take. */
  bytes: number;
  /** Damaged values. */
  readonly damaged: Cid[];
  /** The entries of the last value. */
  readonly entries: Map<string, Json>;
  readonly changes: Map<string, EntryChange[]>;
  /** The most changes to store per entry, latest first. */
  maxPerEntry: number;
}

function newWalk(): Walk {
  return {
    last: undefined,
    bytes: 0,
    damaged: [],
    entries: new Map(),
    changes: new Map(),
    maxPerEntry: CHANGES_MAX,
  };
}

function recordChange(walk: Walk, name: string, raw: unknown, { cid: value, changedAt, by }: NameChange): void {
  const before = walk.entries.get(name);
  if (before === raw || (before !== undefined && raw !== undefined && isSameJson(before, raw))) return;
  if (raw === undefined) walk.entries.delete(name);
  else walk.entries.set(name, raw as Json);
  const definition = isObject(raw) ? definitionIn(raw) : null;
  const cid = raw === undefined ? null : rawBlock(entryText(raw)).cid;
  const change = { cid, value, definition, referred: readConfigCid(raw), changedAt, by };
  const changes = walk.changes.get(name);
  if (!changes) walk.changes.set(name, [change]);
  else if (changes.push(change) > walk.maxPerEntry) {
    changes.shift();
    return;
  }
  walk.bytes += CHANGE_BYTES;
}

/** The most changes to store per entry; VERSIONS_MAX of them are listed. */
const CHANGES_MAX = 2_000;
/** The memory that a change takes. */
const CHANGE_BYTES = 384;
const nothing: RawEntries = new Map<string, unknown>();

/** The contract that clients saw of a release; undefined if it is not a release of this server. */
export async function readContract(
  store: Store,
  tenant: string,
  server: string,
  release: Cid,
): Promise<Contract | undefined> {
  if (!(await store.had(tenant, "release", server, release))) return undefined;
  const parts = await readParts(store, tenant, release);
  const listed = parts && (await store.content(tenant, parts.contract));
  return listed && sanitizeContract(await decodeJsonYielding(listed));
}

export async function readParts(store: Store, tenant: string, release: Cid): Promise<ReleaseParts | undefined> {
  return (await readStructure(store, tenant, release)) as ReleaseParts | undefined;
}

export async function readStructure(store: Store, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await store.content(tenant, cid);
  return bytes && decodeRecord(bytes);
}

export function singleText(name: string, text: string): Draft {
  return { entry: name, files: Object.fromEntries([[name, text]]) };
}

function definitionIn(record: Record<string, unknown>): Cid | null {
  const definition = record["definition"];
  return typeof definition === "string" && isCid(definition) ? definition : null;
}

/** Newest first, without versions that changed nothing or did not exist yet. */
function dropUnchanged(oldestFirst: readonly Version[]): Version[] {
  return oldestFirst
    .filter(({ cid }, index) => cid !== (index === 0 ? null : oldestFirst[index - 1]!.cid))
    .toReversed();
}
