import type { Contract } from "../contract/contract.ts";
import { soundContract } from "../contract/sound.ts";
import { referredIn } from "../entry/entry.ts";
import { readableMcps } from "../entry/mcps.ts";
import type { ReleaseParts } from "../host/catalog/release.ts";
import { storedDefinition } from "../image/definition.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { decodeJsonInTurns, decodeRecord, isCid, rawBlock, type Cid } from "../lib/cid.ts";
import type { Draft } from "../lib/draft.ts";
import { nextTurn, turnTaker } from "../lib/event-loop.ts";
import { isObject, isSameJson, type Json } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import { ifSound } from "../store/if-sound.ts";
import type { NameChange, Store } from "../store/store.ts";
import type { Subject, Version } from "./edits.ts";
import { entryText, readRawEntries, resolveEntry, textAt, type RawEntries } from "./mcps-text.ts";

/** Earlier versions of subjects, from the histories of the names that they stand behind. */
export interface Past {
  /** The latest versions, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** Undefined when the subject never had this version, or its content is gone. */
  draft(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
}

/**
 * The most versions to list of one subject, since repeated saves make any number. Earlier ones are found by their CIDs.
 */
const VERSIONS_MAX = 1_000;

export function openPast(store: Store, { pastEntriesBytes }: Pick<Limits, "pastEntriesBytes">): Past {
  const entries = new PastEntries(store, pastEntriesBytes);
  /** The definitions of entries that `config_cid` refers to: an entry may have had thousands. */
  const referredDefinitions = new BoundedMap<string, Cid | null>(REFERRED_MAX);

  async function entryHistory(tenant: string, server: string): Promise<Version[]> {
    const versions: Version[] = [];
    const takeTurns = turnTaker();
    for (const { cid, changedAt, by } of await entries.changes(tenant, server)) {
      await takeTurns();
      versions.push({ cid, changedAt, by });
    }
    return changesOf(versions);
  }

  /** A definition is named by the entry, or else by the server's own record. */
  async function definitionHistory(tenant: string, server: string): Promise<Version[]> {
    const records = (await store.history(tenant, "server", server, CHANGES_MAX)).toReversed();
    const recorded = new Map<Cid, Cid | null>();
    const ofChangedRecord = async (cid: Cid | null): Promise<Cid | null> => {
      if (cid === null) return null;
      if (!recorded.has(cid)) recorded.set(cid, await recordDefinition(tenant, cid));
      return recorded.get(cid) ?? null;
    };
    const oldestFirst = [...records, ...(await entries.changes(tenant, server))].sort(
      (a, b) => a.changedAt - b.changedAt,
    );
    const versions: Version[] = [];
    let ofRecord: Cid | null = null;
    let ofEntry: Cid | null = null;
    const takeTurns = turnTaker();
    for (const [index, change] of oldestFirst.entries()) {
      await takeTurns();
      const { changedAt, by } = change;
      if (isOfEntry(change)) ofEntry = await entryDefinition(tenant, change);
      else ofRecord = await ofChangedRecord(change.cid);
      // One change may have moved both names.
      if (oldestFirst[index + 1]?.changedAt === changedAt) continue;
      versions.push({ cid: ofEntry ?? ofRecord, changedAt, by });
    }
    return changesOf(versions);
  }

  async function recordDefinition(tenant: string, cid: Cid): Promise<Cid | null> {
    const bytes = await ifSound(store.content(tenant, cid));
    const record = bytes && decodeRecord(bytes);
    return isObject(record) ? definitionIn(record) : null;
  }

  async function entryDefinition(tenant: string, { definition, referred }: EntryChange): Promise<Cid | null> {
    if (referred === undefined) return definition;
    const key = `${tenant} ${referred}`;
    const known = referredDefinitions.get(key);
    if (known !== undefined) return known;
    const { entry } = await resolveEntry(store, tenant, { config_cid: referred });
    const found = isObject(entry) ? definitionIn(entry) : null;
    referredDefinitions.set(key, found);
    return found;
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
      const { entry, files } = await storedDefinition(store, tenant, cid, name);
      return { entry, files };
    },
  };
}

/** A change of an entry. Its text stands in a value of `mcps`, and is read from there on demand. */
interface EntryChange extends Pick<NameChange, "changedAt" | "by"> {
  /** CID of its text as written; null when the entry was removed. */
  readonly cid: Cid | null;
  /** CID of the value of `mcps` in which it stands. */
  readonly value: Cid | null;
  readonly definition: Cid | null;
  /** The content that its `config_cid` names. */
  readonly referred: Cid | undefined;
}

function isOfEntry(change: NameChange | EntryChange): change is EntryChange {
  return "value" in change;
}

/**
 * The history of each server's entry. Every earlier value of the variable is read once, in turns, and only the changes
 * of entries are kept: a value has thousands of entries, and a save changes one of them.
 */
class PastEntries {
  readonly #store: Store;
  readonly #bytesMax: number;
  /** By tenant, the most recently used last. */
  readonly #known = new Map<string, Walk>();
  readonly #walking = new Map<string, Promise<Walk>>();

  constructor(store: Store, bytesMax: number) {
    this.#store = store;
    this.#bytesMax = bytesMax;
  }

  /** Oldest first. Changes in a damaged value are not known. */
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

  /** The text of an entry after a change. */
  async text(tenant: string, server: string, { value }: EntryChange): Promise<string | undefined> {
    const raw = value === null ? undefined : (await this.#read(tenant, value))?.get(server);
    return raw === undefined ? undefined : entryText(raw);
  }

  async #walk(tenant: string): Promise<Walk> {
    const known = this.#known.get(tenant);
    this.#known.delete(tenant);
    const walk = await this.#goOn(tenant, known && !(await this.#isMended(tenant, known)) ? known : newWalk());
    await this.#forgetEarliest(walk);
    this.#known.set(tenant, walk);
    let bytes = 0;
    for (const each of this.#known.values()) bytes += each.bytes;
    for (const [oldest, each] of this.#known) {
      if (bytes <= this.#bytesMax || oldest === tenant) break;
      this.#known.delete(oldest);
      bytes -= each.bytes;
    }
    return walk;
  }

  /** Damaged content is mended without a change of any name. */
  async #isMended(tenant: string, { damaged }: Walk): Promise<boolean> {
    for (const cid of damaged) if (await this.#read(tenant, cid)) return true;
    return false;
  }

  /**
   * Reads the values that came since; starts anew with the latest if the history is another one, as after an import.
   */
  async #goOn(tenant: string, known: Walk): Promise<Walk> {
    const { isNew, changes } = await this.#changesAfter(tenant, known.last);
    const walk = isNew ? newWalk() : known;
    const takeTurns = turnTaker();
    // Saves may alternate between two values.
    const read = new BoundedMap<Cid, RawEntries | undefined>(2);
    for (const change of changes) {
      const { cid } = change;
      if (cid !== null && !read.has(cid)) read.set(cid, await this.#read(tenant, cid));
      const entries = cid === null ? nothing : read.get(cid);
      walk.last = change;
      if (cid !== null && !entries) walk.damaged.push(cid);
      if (!entries) continue;
      for (const name of entries.keys()) {
        await takeTurns();
        note(walk, name, entries.get(name), change);
      }
      for (const name of walk.entries.keys()) {
        await takeTurns();
        if (!entries.has(name)) note(walk, name, undefined, change);
      }
    }
    return walk;
  }

  /** Oldest first. Asks for few at first: a history may be long, and mostly there is one new change, or none. */
  async #changesAfter(
    tenant: string,
    last: NameChange | undefined,
  ): Promise<{ readonly isNew: boolean; readonly changes: readonly NameChange[] }> {
    for (let most = last ? 32 : WALKED_MAX; ; most = Math.min(WALKED_MAX, most * 16)) {
      const latest = await this.#store.history(tenant, "variable", "mcps", most);
      const at = last ? latest.findIndex((each) => isSame(each, last)) : -1;
      if (at >= 0) return { isNew: false, changes: latest.slice(0, at).toReversed() };
      if (latest.length < most || most === WALKED_MAX) return { isNew: true, changes: latest.toReversed() };
    }
  }

  /** Keeps as many changes of each entry as there is room for. */
  async #forgetEarliest(walk: Walk): Promise<void> {
    const takeTurns = turnTaker();
    while (walk.bytes > this.#bytesMax && walk.most > 1) {
      walk.most = Math.ceil(walk.most / 2);
      for (const changes of walk.changes.values()) {
        await takeTurns();
        const forgotten = changes.splice(0, changes.length - walk.most);
        walk.bytes -= forgotten.length * CHANGE_BYTES;
      }
    }
  }

  /** Undefined for a missing or damaged value. */
  async #read(tenant: string, variable: Cid): Promise<RawEntries | undefined> {
    const bytes = await ifSound(this.#store.content(tenant, variable));
    if (!bytes) return undefined;
    await nextTurn();
    const text = Buffer.from(bytes).toString();
    const referred = text.trim();
    const value = isCid(referred) ? await ifSound(textAt(this.#store, tenant, referred)) : text;
    if (value === undefined) return undefined;
    const entries = (await readRawEntries(value, readableMcps())) ?? nothing;
    await nextTurn();
    return entries;
  }
}

/** The most changes of `mcps` to look through. */
const WALKED_MAX = 20_000;

function isSame(one: NameChange, other: NameChange): boolean {
  return one.cid === other.cid && one.changedAt === other.changedAt && one.by === other.by;
}

/** These take some megabytes. */
const REFERRED_MAX = 20_000;

/** The progress of reading the values, from the oldest on. */
interface Walk {
  last: NameChange | undefined;
  /** The memory that all changes take. */
  bytes: number;
  /** Damaged values. */
  readonly damaged: Cid[];
  /** The entries of the last value. */
  readonly entries: Map<string, Json>;
  readonly changes: Map<string, EntryChange[]>;
  /** The most changes to keep of one entry, the latest ones. */
  most: number;
}

function newWalk(): Walk {
  return {
    last: undefined,
    bytes: 0,
    damaged: [],
    entries: new Map(),
    changes: new Map(),
    most: CHANGES_MAX,
  };
}

function note(walk: Walk, name: string, raw: unknown, { cid: value, changedAt, by }: NameChange): void {
  const before = walk.entries.get(name);
  if (before === raw || (before !== undefined && raw !== undefined && isSameJson(before, raw))) return;
  if (raw === undefined) walk.entries.delete(name);
  else walk.entries.set(name, raw as Json);
  const definition = isObject(raw) ? definitionIn(raw) : null;
  const cid = raw === undefined ? null : rawBlock(entryText(raw)).cid;
  const change = { cid, value, definition, referred: referredIn(raw), changedAt, by };
  const changes = walk.changes.get(name);
  if (!changes) walk.changes.set(name, [change]);
  else if (changes.push(change) > walk.most) {
    changes.shift();
    return;
  }
  walk.bytes += CHANGE_BYTES;
}

/** The most changes to keep of one entry; VERSIONS_MAX of them are listed. */
const CHANGES_MAX = 2_000;
/** The memory that a change takes. */
const CHANGE_BYTES = 384;
const nothing: RawEntries = new Map<string, unknown>();

/** The contract that clients saw of a release; undefined when it is no release of this server. */
export async function contractOf(
  store: Store,
  tenant: string,
  server: string,
  release: Cid,
): Promise<Contract | undefined> {
  if (!(await store.had(tenant, "release", server, release))) return undefined;
  const parts = await partsOf(store, tenant, release);
  const listed = parts && (await store.content(tenant, parts.contract));
  return listed && soundContract(await decodeJsonInTurns(listed));
}

export async function partsOf(store: Store, tenant: string, release: Cid): Promise<ReleaseParts | undefined> {
  return (await structureAt(store, tenant, release)) as ReleaseParts | undefined;
}

export async function structureAt(store: Store, tenant: string, cid: Cid): Promise<unknown> {
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
function changesOf(oldestFirst: readonly Version[]): Version[] {
  return oldestFirst
    .filter(({ cid }, index) => cid !== (index === 0 ? null : oldestFirst[index - 1]!.cid))
    .toReversed();
}
