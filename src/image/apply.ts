import { isCid, jsonBlock, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { ENTRY_NESTING_MAX, isDeeper, tryParseObject } from "../lib/json.ts";
import { compareText, prettyJson } from "../lib/pretty-json.ts";
import type { Store, NameKind, NameMove } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { APPLIED, trustRecord, tryReadCompiled, isTrusted } from "./claimed.ts";
import type { Image, Manifest, ServerRecord } from "./image.ts";
import { parseManifest } from "./read.ts";

/** The effect of an image on a tenant's names. */
export interface ApplyReport {
  /** The image that is applied now. */
  readonly image: Cid;
  /** False if this image was applied last, and nothing was examined. */
  readonly applied: boolean;
  /** Names that were updated to the image. */
  readonly changed: readonly NameReport[];
  /** Names that were edited here and keep the edit, even if the image changed them as well. */
  readonly kept: readonly NameReport[];
}

interface ApplyOptions {
  /** The image's compiled results are trusted for this tenant; otherwise definitions are compiled again when needed. */
  readonly believesCompiled: boolean;
  /** If another image was applied, that one stays. */
  readonly onlyFirst?: boolean;
}

const ATTEMPTS = 5;

/**
 * Updates a tenant's names to an image, in one transaction: unedited names follow the image, edited ones stay and are
 * reported. The variable `mcps` is merged entry by entry. If the image was applied last, this costs two look-ups.
 */
export async function applyImage(
  store: Store,
  tenant: string,
  image: Image,
  options: ApplyOptions = { believesCompiled: true },
): Promise<ApplyReport> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await applyOnce(store, tenant, image, options);
    } catch (error) {
      // A user edited in the meantime: that edit is read and merged as well.
      const isConflict = error instanceof BerthError && error.code === "name_conflict";
      if (!isConflict || attempt === ATTEMPTS) throw error;
    }
  }
}

async function applyOnce(
  store: Store,
  tenant: string,
  image: Image,
  { believesCompiled, onlyFirst }: ApplyOptions,
): Promise<ApplyReport> {
  const last = await store.name(tenant, "image", APPLIED);
  if (last && last.cid !== image.cid && onlyFirst) return { image: last.cid, applied: false, changed: [], kept: [] };
  if (last?.cid === image.cid) {
    if (believesCompiled && !(await isTrusted(store, tenant, image.cid))) {
      // It was applied elsewhere, and imported with a tenant's file.
      await store.change(tenant, {
        by: "image",
        put: newClaims(image, undefined),
        derived: [trustRecord(tenant, image.cid)],
      });
    }
    return { image: image.cid, applied: false, changed: [], kept: [] };
  }

  const base = last && (await readManifest(store, tenant, last.cid));
  const plan: NamesPlan = { store, tenant, base, image, put: newContent(image, base), set: [], names: [] };
  await planServers(plan);
  await planVariables(plan);

  const manifest = jsonBlock(image.manifest);
  plan.put.push(manifest);
  plan.set.push({ kind: "image", name: APPLIED, cid: manifest.cid, expected: last?.cid ?? null });

  if (believesCompiled) {
    const isBaseBelieved = last !== undefined && (await isTrusted(store, tenant, last.cid));
    plan.put.push(...newClaims(image, isBaseBelieved ? base : undefined));
  }
  const derived = believesCompiled ? [trustRecord(tenant, image.cid)] : [];
  await store.change(tenant, { by: "image", put: plan.put, set: plan.set, derived });
  const isKept = ({ outcome }: NameReport): boolean => outcome === "kept" || outcome === "conflict";
  return {
    image: image.cid,
    applied: true,
    changed: plan.names.filter((name) => !isKept(name)),
    kept: plan.names.filter(isKept),
  };
}

/** Undefined if it was damaged on the disk: then everything counts as edited here, and stays. */
async function readManifest(store: Store, tenant: string, cid: Cid): Promise<Manifest | undefined> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  return bytes && parseManifest(bytes, cid);
}

/** The content that the last image did not include. */
function newContent(image: Image, base: Manifest | undefined): Block[] {
  const existing = new Set(base?.content);
  return image.manifest.content.filter((cid) => !existing.has(cid)).map((cid) => ({ cid, bytes: image.content(cid) }));
}

/** The results that the last image did not claim, with their bundles. Leaves out damaged ones. */
function newClaims(image: Image, base: Manifest | undefined): Block[] {
  const claimed = new Map(Object.entries(base?.derived ?? {}));
  return Object.entries(image.manifest.derived).flatMap(([key, cid]) => {
    if (claimed.get(key) === cid) return [];
    const result = readIntact(image, cid);
    const compiled = result && tryReadCompiled(result.bytes);
    if (!compiled) return [];
    if (compiled.bundle === null) return [result];
    const bundle = readIntact(image, compiled.bundle);
    return bundle ? [result, bundle] : [];
  });
}

function readIntact(image: Image, cid: Cid): Block | undefined {
  try {
    return { cid, bytes: image.content(cid) };
  } catch (error) {
    if (error instanceof BerthError && error.code === "image_invalid") return undefined;
    throw error;
  }
}

/** The changes of an image to the names of a tenant, merged three ways: applied last, stored now, new. */
interface NamesPlan {
  readonly store: Store;
  readonly tenant: string;
  /** The manifest that was applied last. */
  readonly base: Manifest | undefined;
  readonly image: Image;
  readonly put: Block[];
  readonly set: NameMove[];
  readonly names: NameReport[];
}

interface NameReport {
  readonly kind: "server" | "variable";
  readonly name: string;
  /** The entry of the variable `mcps` that was changed. */
  readonly entry?: string;
  /** `kept`: edited here, and the image did not change it. `conflict`: both changed it, and the edit stays. */
  readonly outcome: "added" | "updated" | "removed" | "kept" | "conflict";
  readonly message?: string;
}

async function planServers(plan: NamesPlan): Promise<void> {
  const toBlock = ({ definition_cid: definition, enabled }: Manifest["servers"][number]): Block => {
    const record: ServerRecord = { definition, enabled };
    return jsonBlock(record);
  };
  const theirs = new Map(plan.image.manifest.servers.map((server) => [server.name, toBlock(server)]));
  const before = new Map(plan.base?.servers.map((server) => [server.name, toBlock(server).cid]));
  const mine = await cidsByName(plan, "server");
  plan.put.push(...theirs.values());
  for (const name of allNames(theirs, before, mine)) {
    planName(plan, { kind: "server", name }, before.get(name), mine.get(name), theirs.get(name)?.cid);
  }
}

async function planVariables(plan: NamesPlan): Promise<void> {
  const listCids = (manifest: Manifest | undefined) => {
    const enabled = manifest?.variables.filter((variable) => variable.enabled) ?? [];
    return new Map(enabled.map(({ name, definition_cid: cid }) => [name, cid]));
  };
  const theirs = listCids(plan.image.manifest);
  const before = listCids(plan.base);
  const mine = await cidsByName(plan, "variable");
  for (const name of allNames(theirs, before, mine)) {
    const [base, current, incoming] = [before.get(name), mine.get(name), theirs.get(name)];
    const { outcome } = mergeThreeWays(base, current, incoming, Object.is);
    if (name === "mcps" && outcome === "conflict" && current !== undefined && incoming !== undefined) {
      await planMcps(plan, { base, mine: current, theirs: incoming });
    } else {
      planName(plan, { kind: "variable", name }, base, current, incoming);
    }
  }
}

/** Both sides changed the configuration: each entry gets the value of the side that changed it. */
async function planMcps(
  plan: NamesPlan,
  { base, mine, theirs }: { base: Cid | undefined; mine: Cid; theirs: Cid },
): Promise<void> {
  const { store, tenant, image } = plan;
  const stored = (cid: Cid): Promise<Uint8Array | undefined> => unlessDamaged(store.content(tenant, cid));
  const merged = await mergeMcps({
    base: base === undefined ? undefined : await stored(base),
    mine: await stored(mine),
    theirs: image.content(theirs),
    read: stored,
  });
  for (const { entry, ...report } of merged.entries) {
    plan.names.push({ kind: "variable", name: "mcps", ...(entry !== undefined && { entry }), ...report });
  }
  if (!merged.value || merged.value.cid === mine) return;
  plan.put.push(merged.value);
  plan.set.push({ kind: "variable", name: "mcps", cid: merged.value.cid, expected: mine });
}

function planName(
  plan: NamesPlan,
  { kind, name }: { kind: "server" | "variable"; name: string },
  base: Cid | undefined,
  mine: Cid | undefined,
  theirs: Cid | undefined,
): void {
  const merge = mergeThreeWays(base, mine, theirs, Object.is);
  const { outcome } = merge;
  // A name that was in no image belongs to a user, and the image leaves it alone.
  if (outcome === "same" || (base === undefined && theirs === undefined)) return;
  if (outcome === "conflict") {
    plan.names.push({ kind, name, outcome, message: conflictMessage(`The ${kind} "${name}"`, mine, theirs) });
    return;
  }
  plan.names.push({ kind, name, outcome });
  if (outcome === "kept") return;
  plan.set.push({ kind, name, cid: "value" in merge ? merge.value : null, expected: mine ?? null });
}

function conflictMessage(subject: string, mine: Cid | undefined, theirs: Cid | undefined): string {
  if (theirs === undefined) return `${subject} is no longer in the image, but was edited here: the edit is kept`;
  if (mine === undefined) return `${subject} was removed here and changed by the image: it stays removed`;
  return `${subject} was changed here and by the image: the edit is kept; the image has ${theirs}`;
}

async function cidsByName({ store, tenant }: NamesPlan, kind: NameKind): Promise<Map<string, Cid>> {
  return new Map((await store.names(tenant, kind)).map(({ name, cid }) => [name, cid]));
}

function allNames(...maps: readonly ReadonlyMap<string, unknown>[]): string[] {
  return [...new Set(maps.flatMap((map) => Array.from(map.keys())))].sort(compareText);
}

interface McpsMerge {
  /** The new value of the variable; undefined if the current one cannot be merged and stays. */
  readonly value?: Block;
  readonly entries: readonly EntryReport[];
}

/** `entry` is absent if the report is about the whole variable. */
type EntryReport = Pick<NameReport, "entry" | "outcome" | "message">;

/**
 * Merges two changed values of the variable `mcps` entry by entry, so that an edit of one server does not block a new
 * one. A value may be the CID of the configuration; `read` resolves it.
 */
export async function mergeMcps(sides: {
  /** Undefined if no image has been applied yet. */
  base: Uint8Array | undefined;
  mine: Uint8Array | undefined;
  theirs: Uint8Array;
  read: (cid: Cid) => Promise<Uint8Array | undefined>;
}): Promise<McpsMerge> {
  const [base, mine, theirs] = [
    sides.base ? await readEntries(sides.base, sides.read) : new Map<string, unknown>(),
    await readEntries(sides.mine, sides.read),
    await readEntries(sides.theirs, sides.read),
  ];
  if (!base || !mine || !theirs) {
    const message = "The current variable mcps is not an object of servers, so the image's changes are left out";
    return { entries: [{ outcome: "conflict", message }] };
  }
  const deep = [...base, ...mine, ...theirs].find(([, entry]) => isDeeper(entry, ENTRY_NESTING_MAX));
  if (deep) {
    const reason = `its entry "${deep[0]}" , here or in the image, nests more than ${ENTRY_NESTING_MAX} levels deep`;
    const message = `The image's changes of the variable mcps are left out, because ${reason}; flatten it`;
    return { entries: [{ outcome: "conflict", message }] };
  }

  const merged = new Map(mine);
  const reports: EntryReport[] = [];
  for (const entry of allNames(base, mine, theirs)) {
    const merge = mergeThreeWays(base.get(entry), mine.get(entry), theirs.get(entry), isSameJson);
    const { outcome } = merge;
    if (outcome === "same") continue;
    if ("value" in merge) merged.set(entry, merge.value);
    if (outcome === "removed") merged.delete(entry);
    const isOwnEntry = !base.has(entry) && !theirs.has(entry);
    if (isOwnEntry) continue;
    const message = `The entry "${entry}" of mcps was changed here and by the image: the edit is kept`;
    reports.push({ entry, outcome, ...(outcome === "conflict" && { message }) });
  }
  return { value: rawBlock(prettyJson(Object.fromEntries(merged))), entries: reports };
}

async function readEntries(
  bytes: Uint8Array | undefined,
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
): Promise<Map<string, unknown> | undefined> {
  if (!bytes) return undefined;
  const text = new TextDecoder().decode(bytes).trim();
  if (isCid(text)) {
    const referred = await read(text);
    return referred && !isCid(new TextDecoder().decode(referred).trim()) ? readEntries(referred, read) : undefined;
  }
  const value = tryParseObject(text);
  return value && new Map(Object.entries(value));
}

function isSameJson(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a === b || prettyJson(a) === prettyJson(b);
}

/**
 * The three-way rule for a value that both an image and a user may change. `base` is the value in the last applied
 * image, `mine` the current one, `theirs` that of the new image; `undefined` is absence. A user's edit is never lost:
 * the new image counts only if the value of the last image is unedited.
 */
type Merge<T> =
  | { readonly outcome: "same" | "kept" | "conflict" }
  | { readonly outcome: "added" | "updated"; readonly value: T }
  | { readonly outcome: "removed" };

export function mergeThreeWays<T>(
  base: T | undefined,
  mine: T | undefined,
  theirs: T | undefined,
  isSame: (a: T | undefined, b: T | undefined) => boolean,
): Merge<T> {
  if (isSame(mine, theirs)) return { outcome: "same" };
  if (isSame(base, theirs)) return { outcome: "kept" };
  if (!isSame(mine, base)) return { outcome: "conflict" };
  if (theirs === undefined) return { outcome: "removed" };
  return { outcome: mine === undefined ? "added" : "updated", value: theirs };
}
