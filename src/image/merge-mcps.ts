import { isCid, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { ENTRY_NESTING_MAX, isDeeper, isObject } from "../lib/json.ts";
import { mergeThreeWays } from "./merge.ts";
import { compareText, prettyJson } from "../lib/pretty-json.ts";

export interface McpsMerge {
  /** The new value of the variable; undefined where the current one cannot be merged and stays. */
  readonly value?: Block;
  readonly entries: readonly EntryReport[];
}

interface EntryReport {
  /** The server's name; absent when it is about the whole variable. */
  readonly entry?: string;
  readonly outcome: "added" | "updated" | "removed" | "kept" | "conflict";
  readonly message?: string;
}

/**
 * Merges two changed values of the variable `mcps` entry by entry, so that an edit of one server does not keep a
 * new one out. A value may be the CID of the configuration; `read` resolves it.
 */
export async function mergeMcps(sides: {
  /** Undefined when no image has been applied yet. */
  base: Uint8Array | undefined;
  mine: Uint8Array | undefined;
  theirs: Uint8Array;
  read: (cid: Cid) => Promise<Uint8Array | undefined>;
}): Promise<McpsMerge> {
  const [base, mine, theirs] = [
    sides.base ? await entriesOf(sides.base, sides.read) : new Map<string, unknown>(),
    await entriesOf(sides.mine, sides.read),
    await entriesOf(sides.theirs, sides.read),
  ];
  if (!base || !mine || !theirs) {
    const message = "The variable mcps as it stands is not an object of servers, so the image's changes are left out";
    return { entries: [{ outcome: "conflict", message }] };
  }
  const deep = [...base, ...mine, ...theirs].find(([, entry]) => isDeeper(entry, ENTRY_NESTING_MAX));
  if (deep) {
    const why = `its entry "${deep[0]}" here or there nests more than ${ENTRY_NESTING_MAX} levels deep`;
    const message = `The image's changes of the variable mcps are left out, since ${why}; write it flatter`;
    return { entries: [{ outcome: "conflict", message }] };
  }

  const merged = new Map(mine);
  const reports: EntryReport[] = [];
  for (const entry of [...new Set([...base.keys(), ...mine.keys(), ...theirs.keys()])].sort(compareText)) {
    const merge = mergeThreeWays(base.get(entry), mine.get(entry), theirs.get(entry), isSameJson);
    const { outcome } = merge;
    if (outcome === "same") continue;
    if ("value" in merge) merged.set(entry, merge.value);
    if (outcome === "removed") merged.delete(entry);
    const ownEntry = !base.has(entry) && !theirs.has(entry);
    if (ownEntry) continue;
    const message = `The entry "${entry}" of mcps was changed here and by the image: the edit is kept`;
    reports.push({ entry, outcome, ...(outcome === "conflict" && { message }) });
  }
  return { value: rawBlock(prettyJson(Object.fromEntries(merged))), entries: reports };
}

async function entriesOf(
  bytes: Uint8Array | undefined,
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
): Promise<Map<string, unknown> | undefined> {
  if (!bytes) return undefined;
  const text = new TextDecoder().decode(bytes).trim();
  if (isCid(text)) {
    const referred = await read(text);
    return referred && !isCid(new TextDecoder().decode(referred).trim()) ? entriesOf(referred, read) : undefined;
  }
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? new Map(Object.entries(value)) : undefined;
  } catch {
    return undefined;
  }
}

function isSameJson(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a === b || prettyJson(a) === prettyJson(b);
}
