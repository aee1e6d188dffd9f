import { decodeJson, isCid, rawBlock, type Cid } from "../../cid.ts";
import { loadDefinition } from "../../image/definition.ts";
import { isObject } from "../../json.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { NameChange, Store } from "../../store/store.ts";
import type { Draft, Subject, Version } from "./edits.ts";
import { entryText, PastEntries, resolveEntry, textAt } from "./mcps-text.ts";

/** What subjects were: told by the histories of the names that they stand behind. */
export interface Past {
  /** Every version, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** Undefined when the subject never had this version, or its content is gone. */
  draft(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
}

export function openPast(store: Store): Past {
  const past = new PastEntries(store);

  const mcpsHistory = (tenant: string): Promise<NameChange[]> => store.history(tenant, "variable", "mcps");
  const rawAt = async (tenant: string, variable: Cid | null, server: string): Promise<unknown> => {
    if (variable === null) return undefined;
    const entries = await past.at(tenant, variable);
    return entries ? entries.get(server) : UNKNOWN;
  };
  const entryCid = (raw: unknown): Cid | null => (raw === undefined ? null : rawBlock(entryText(raw)).cid);

  async function entryHistory(tenant: string, server: string): Promise<Version[]> {
    const oldestFirst = (await mcpsHistory(tenant)).toReversed();
    const versions: Version[] = [];
    for (const { cid, changedAt, by } of oldestFirst) {
      const raw = await rawAt(tenant, cid, server);
      if (raw !== UNKNOWN) versions.push({ cid: entryCid(raw), changedAt, by });
    }
    return changesOf(versions);
  }

  /** A definition is named by the entry, or else by the server's own record. */
  async function definitionHistory(tenant: string, server: string): Promise<Version[]> {
    const records = (await store.history(tenant, "server", server)).toReversed();
    const values = (await mcpsHistory(tenant)).toReversed();
    const oldestFirst = [...records, ...values].sort((a, b) => a.changedAt - b.changedAt);
    const ofRecords = new Set(records);
    const versions: Version[] = [];
    let ofRecord: Cid | null = null;
    let ofEntry: Cid | null = null;
    for (const [index, change] of oldestFirst.entries()) {
      const { cid, changedAt, by } = change;
      if (ofRecords.has(change)) ofRecord = await recordDefinition(tenant, cid);
      else {
        const raw = await rawAt(tenant, cid, server);
        if (raw !== UNKNOWN) ofEntry = await entryDefinition(tenant, raw);
      }
      // One change may have moved both names.
      if (oldestFirst[index + 1]?.changedAt === changedAt) continue;
      versions.push({ cid: ofEntry ?? ofRecord, changedAt, by });
    }
    return changesOf(versions);
  }

  async function recordDefinition(tenant: string, cid: Cid | null): Promise<Cid | null> {
    const bytes = cid === null ? undefined : await ifSound(store.content(tenant, cid));
    const record = bytes && decodeJson(bytes);
    return isObject(record) ? definitionIn(record) : null;
  }

  async function entryDefinition(tenant: string, raw: unknown): Promise<Cid | null> {
    const { entry } = await resolveEntry(store, tenant, raw);
    return isObject(entry) ? definitionIn(entry) : null;
  }

  async function history(tenant: string, { kind, name }: Subject): Promise<readonly Version[]> {
    switch (kind) {
      case "variable":
        return store.history(tenant, "variable", name);
      case "definition":
        return definitionHistory(tenant, name);
      case "entry":
        return entryHistory(tenant, name);
    }
  }

  async function entryAt(tenant: string, server: string, cid: Cid): Promise<Draft | undefined> {
    for (const { cid: variable } of await mcpsHistory(tenant)) {
      const raw = await rawAt(tenant, variable, server);
      if (raw !== UNKNOWN && entryCid(raw) === cid) return singleText(server, entryText(raw));
    }
    return undefined;
  }

  return {
    history,
    async draft(tenant, subject, cid) {
      const { kind, name } = subject;
      if (kind === "entry") return entryAt(tenant, name, cid);
      if (!(await history(tenant, subject)).some((version) => version.cid === cid)) return undefined;
      if (kind === "variable") return singleText(name, await textAt(store, tenant, cid));
      const { entry, files } = await loadDefinition((each) => store.content(tenant, each), cid, name);
      return { entry, files };
    },
  };
}

/** What an entry said in a value that went bad on the disk. */
const UNKNOWN = Symbol("unknown");

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
