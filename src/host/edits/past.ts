import { decodeRecord, isCid, rawBlock, type Cid } from "../../cid.ts";
import { loadDefinition } from "../../image/definition.ts";
import { isObject, isSameJson, jsonText, type Json } from "../../json.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { NameChange, Store } from "../../store/store.ts";
import type { Draft, Subject, Version } from "./edits.ts";
import { mcpsBounds, type McpsLimits } from "../config/mcps.ts";
import type { ObjectBounds } from "./json-spans.ts";
import { entryText, readRawEntries, referredIn, resolveEntry, textAt, type RawEntries } from "./mcps-text.ts";
import { nextTurn, turnTaker } from "../../turns.ts";

/** What subjects were: told by the histories of the names that they stand behind. */
export interface Past {
  /** The latest versions, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** Undefined when the subject never had this version, or its content is gone. */
  draft(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
}

export interface PastLimits extends McpsLimits {
  /** Of what entries were, as it is kept in memory for all tenants. */
  readonly pastEntriesBytes: number;
}

/** Of one subject that are told: whoever saves again and again makes as many. Earlier ones are found by their CIDs. */
const VERSIONS_MAX = 1_000;

export function openPast(store: Store, limits: PastLimits): Past {
  const entries = new PastEntries(store, limits);
  const elsewhere = new DefinitionsElsewhere();

  async function entryHistory(tenant: string, server: string): Promise<Version[]> {
    const versions: Version[] = [];
    const takeTurns = turnTaker();
    for (const { raw, changedAt, by } of await entries.changes(tenant, server)) {
      await takeTurns();
      versions.push({ cid: entryCid(raw), changedAt, by });
    }
    return changesOf(versions);
  }

  /** A definition is named by the entry, or else by the server's own record. */
  async function definitionHistory(tenant: string, server: string): Promise<Version[]> {
    const records = (await store.history(tenant, "server", server)).toReversed();
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
      if ("cid" in change) ofRecord = await recordDefinition(tenant, change.cid);
      else ofEntry = await entryDefinition(tenant, change.raw);
      // One change may have moved both names.
      if (oldestFirst[index + 1]?.changedAt === changedAt) continue;
      versions.push({ cid: ofEntry ?? ofRecord, changedAt, by });
    }
    return changesOf(versions);
  }

  async function recordDefinition(tenant: string, cid: Cid | null): Promise<Cid | null> {
    const bytes = cid === null ? undefined : await ifSound(store.content(tenant, cid));
    const record = bytes && decodeRecord(bytes);
    return isObject(record) ? definitionIn(record) : null;
  }

  async function entryDefinition(tenant: string, raw: unknown): Promise<Cid | null> {
    const referred = referredIn(raw);
    const known = referred === undefined ? undefined : elsewhere.get(tenant, referred);
    if (known !== undefined) return known;
    const { entry, through } = await resolveEntry(store, tenant, raw, limits);
    const definition = isObject(entry) ? definitionIn(entry) : null;
    if (through !== undefined) elsewhere.set(tenant, through, definition);
    return definition;
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
    const takeTurns = turnTaker();
    for (const { raw } of await entries.changes(tenant, server)) {
      await takeTurns();
      if (entryCid(raw) === cid) return singleText(server, entryText(raw));
    }
    return undefined;
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
      const { entry, files } = await loadDefinition((each) => store.content(tenant, each), cid, name);
      return { entry, files };
    },
  };
}

function entryCid(raw: unknown): Cid | null {
  return raw === undefined ? null : rawBlock(entryText(raw)).cid;
}

interface EntryChange extends Pick<NameChange, "changedAt" | "by"> {
  /** As it was written; undefined where there was no entry any more. */
  readonly raw: unknown;
}

/**
 * What each server's entry was. Every value that the variable had is read once, in turns, and of each is kept what it
 * changed: a value has thousands of entries, and a save changes one of them.
 */
class PastEntries {
  readonly #store: Store;
  readonly #bytesMax: number;
  readonly #bounds: ObjectBounds;
  /** By tenant; the one that was asked for last is the last. */
  readonly #known = new Map<string, Walk>();
  readonly #walking = new Map<string, Promise<Walk>>();

  constructor(store: Store, limits: PastLimits) {
    this.#store = store;
    this.#bytesMax = limits.pastEntriesBytes;
    this.#bounds = mcpsBounds(limits);
  }

  /** Oldest first. What a value said that went bad on the disk is not known. */
  async changes(tenant: string, server: string): Promise<readonly EntryChange[]> {
    const walking = (this.#walking.get(tenant) ?? Promise.resolve()).then(
      () => this.#walk(tenant),
      () => this.#walk(tenant),
    );
    this.#walking.set(tenant, walking);
    try {
      let walk = await walking;
      // What has no room is not kept, and one server's part of it has.
      if (walk.bytes > this.#bytesMax) walk = await this.#goOn(tenant, newWalk(server));
      return [...(walk.changes.get(server) ?? [])];
    } finally {
      if (this.#walking.get(tenant) === walking) this.#walking.delete(tenant);
    }
  }

  async #walk(tenant: string): Promise<Walk> {
    const known = this.#known.get(tenant);
    this.#known.delete(tenant);
    const walk = await this.#goOn(tenant, known && !(await this.#isMended(tenant, known)) ? known : newWalk());
    this.#known.set(tenant, walk);
    const keptBytes = ({ bytes }: Walk): number => (bytes > this.#bytesMax ? 0 : bytes);
    let bytes = 0;
    for (const each of this.#known.values()) bytes += keptBytes(each);
    for (const [oldest, each] of this.#known) {
      if (bytes <= this.#bytesMax || oldest === tenant) break;
      this.#known.delete(oldest);
      bytes -= keptBytes(each);
    }
    return walk;
  }

  /** What went bad is mended without any change of a name. */
  async #isMended(tenant: string, { damaged }: Walk): Promise<boolean> {
    for (const cid of damaged) if (await this.#read(tenant, cid)) return true;
    return false;
  }

  /** Over the values that came since; from the beginning where those before were others, as after an import. */
  async #goOn(tenant: string, known: Walk): Promise<Walk> {
    const history = (await this.#store.history(tenant, "variable", "mcps")).toReversed();
    const last = history[known.count - 1];
    const isSame = known.count === 0 || (last?.cid === known.last?.cid && last?.changedAt === known.last?.changedAt);
    const walk = isSame ? known : newWalk(known.only);
    const takeTurns = turnTaker();
    for (const change of history.slice(walk.count)) {
      if (walk.only === undefined && walk.bytes > this.#bytesMax) break;
      const { cid } = change;
      const entries = cid === null ? nothing : await this.#read(tenant, cid);
      walk.count += 1;
      walk.last = change;
      if (cid !== null && !entries) walk.damaged.push(cid);
      if (!entries) continue;
      for (const name of walk.only === undefined ? entries.keys() : [walk.only]) {
        await takeTurns();
        note(walk, name, entries.get(name), change);
      }
      for (const name of walk.entries.keys()) {
        await takeTurns();
        if (!entries.has(name)) note(walk, name, undefined, change);
      }
    }
    // That there is no room is all that stays of it.
    if (walk.only === undefined && walk.bytes > this.#bytesMax) {
      walk.changes.clear();
      walk.entries.clear();
    }
    return walk;
  }

  /** Undefined for a value that is not there, or went bad on the disk. */
  async #read(tenant: string, variable: Cid): Promise<RawEntries | undefined> {
    const bytes = await ifSound(this.#store.content(tenant, variable));
    if (!bytes) return undefined;
    await nextTurn();
    const text = Buffer.from(bytes).toString();
    const referred = text.trim();
    const value = isCid(referred) ? await ifSound(textAt(this.#store, tenant, referred)) : text;
    if (value === undefined) return undefined;
    const entries = (await readRawEntries(value, this.#bounds)) ?? nothing;
    await nextTurn();
    return entries;
  }
}

/** Which definitions the entries name that stand in contents of their own: an entry may have had thousands. */
class DefinitionsElsewhere {
  readonly #known = new Map<string, Cid | null>();

  get(tenant: string, content: Cid): Cid | null | undefined {
    return this.#known.get(`${tenant} ${content}`);
  }

  set(tenant: string, content: Cid, definition: Cid | null): void {
    this.#known.set(`${tenant} ${content}`, definition);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= ELSEWHERE_MAX) break;
      this.#known.delete(oldest);
    }
  }
}

/** Some megabytes. */
const ELSEWHERE_MAX = 20_000;

/** How far the values have been read, from the oldest one on. */
interface Walk {
  /** The only server that it is about, where it is not about all. */
  readonly only: string | undefined;
  count: number;
  last: NameChange | undefined;
  bytes: number;
  /** Values that went bad on the disk. */
  readonly damaged: Cid[];
  /** In the last value. */
  readonly entries: Map<string, Json>;
  readonly changes: Map<string, EntryChange[]>;
}

function newWalk(only?: string): Walk {
  return { only, count: 0, last: undefined, bytes: 0, damaged: [], entries: new Map(), changes: new Map() };
}

function note(walk: Walk, name: string, raw: unknown, { changedAt, by }: NameChange): void {
  const before = walk.entries.get(name);
  if (before === raw || (before !== undefined && raw !== undefined && isSameJson(before, raw))) return;
  if (raw === undefined) walk.entries.delete(name);
  else walk.entries.set(name, raw as Json);
  const changes = walk.changes.get(name);
  const change = { raw, changedAt, by };
  if (changes) changes.push(change);
  else walk.changes.set(name, [change]);
  walk.bytes += CHANGE_BYTES + (raw === undefined ? 0 : jsonText(raw).length);
}

/** Of a change besides its entry. */
const CHANGE_BYTES = 128;
const nothing: RawEntries = new Map<string, unknown>();

export function singleText(name: string, text: string): Draft {
  return { entry: name, files: Object.fromEntries([[name, text]]) };
}

function definitionIn(record: Record<string, unknown>): Cid | null {
  const definition = record["definition"];
  return typeof definition === "string" && isCid(definition) ? definition : null;
}

/** Newest first, without what was no change, or not there yet. */
function changesOf(oldestFirst: readonly Version[]): Version[] {
  return oldestFirst
    .filter(({ cid }, index) => cid !== (index === 0 ? null : oldestFirst[index - 1]!.cid))
    .toReversed();
}
