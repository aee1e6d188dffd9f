import { jsonBlock, type Block, type Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import type { NameKind, NameMove, Store } from "../store/store.ts";
import { derivedEntries, readCompiled, type CompiledResult } from "./compiled.ts";
import type { Image, Manifest, ServerRecord } from "./image.ts";
import { mergeMcps } from "./merge-mcps.ts";
import { mergeThreeWays } from "./merge.ts";
import { compareText } from "./pretty-json.ts";
import { parseManifest } from "./read.ts";

/** What applying an image did to a tenant's names. */
export interface ApplyReport {
  readonly image: Cid;
  /** False when this image was applied last, and nothing was looked at. */
  readonly applied: boolean;
  /** Names that followed the image. */
  readonly changed: readonly NameReport[];
  /** Names that were edited here and stay so, whether or not the image changed them too. */
  readonly kept: readonly NameReport[];
}

interface NameReport {
  readonly kind: "server" | "variable";
  readonly name: string;
  /** The entry of the variable `mcps` that it is about. */
  readonly entry?: string;
  /** `kept`: edited here, and the image did not change it. `conflict`: both did, and the edit stands. */
  readonly outcome: "added" | "updated" | "removed" | "kept" | "conflict";
  readonly message?: string;
}

export interface ApplyOptions {
  /** What the image says was compiled counts for all tenants; else it is compiled anew when it is needed. */
  readonly believesCompiled: boolean;
}

/** The name under which a store remembers the manifest that was applied last. */
const APPLIED = "applied";
const ATTEMPTS = 5;

/**
 * Brings a tenant's names to an image, in one transaction: names that nobody edited follow it, edited ones stay
 * and are reported. The variable `mcps` is merged entry by entry. An image that was applied last costs one look-up.
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
      // A person edited in between: their edit is read and merged too.
      const moved = error instanceof BerthError && error.code === "name_moved";
      if (!moved || attempt === ATTEMPTS) throw error;
    }
  }
}

async function applyOnce(
  store: Store,
  tenant: string,
  image: Image,
  { believesCompiled }: ApplyOptions,
): Promise<ApplyReport> {
  const last = await store.name(tenant, "image", APPLIED);
  if (last?.cid === image.cid) return { image: image.cid, applied: false, changed: [], kept: [] };

  const base = last && (await readManifest(store, tenant, last.cid));
  const plan: Plan = { put: contentOf(image, base), set: [], names: [] };
  await planServers(plan, store, tenant, base, image.manifest);
  await planVariables(plan, store, tenant, base, image);

  const manifest = jsonBlock(image.manifest);
  plan.put.push(manifest);
  plan.set.push({ kind: "image", name: APPLIED, cid: manifest.cid, expected: last?.cid ?? null });

  // Derived results say nothing by themselves: that they may be there without the names does no harm.
  if (believesCompiled) await store.putDerived(tenant, derivedOf(image, base));
  await store.change(tenant, { by: "image", put: plan.put, set: plan.set });
  const isKept = ({ outcome }: NameReport): boolean => outcome === "kept" || outcome === "conflict";
  return {
    image: image.cid,
    applied: true,
    changed: plan.names.filter((name) => !isKept(name)),
    kept: plan.names.filter(isKept),
  };
}

interface Plan {
  readonly put: Block[];
  readonly set: NameMove[];
  readonly names: NameReport[];
}

async function readManifest(store: Store, tenant: string, cid: Cid): Promise<Manifest> {
  const bytes = await store.content(tenant, cid);
  if (!bytes) throw new BerthError("content_missing", `the manifest of the applied image, ${cid}`);
  return parseManifest(bytes, cid);
}

/** What the last image did not bring already. */
function contentOf(image: Image, base: Manifest | undefined): Block[] {
  const held = new Set(base?.content);
  return image.manifest.content.filter((cid) => !held.has(cid)).map((cid) => ({ cid, bytes: image.content(cid) }));
}

function derivedOf(image: Image, base: Manifest | undefined): { key: string; block: Block }[] {
  const held = new Map(Object.entries(base?.derived ?? {}));
  return Object.entries(image.manifest.derived).flatMap(([key, cid]) => {
    if (held.get(key) === cid) return [];
    const result = { cid, bytes: image.content(cid) };
    const compiled = compiledHere(result.bytes);
    if (!compiled) return [];
    const bundle =
      compiled.bundle === null ? undefined : { cid: compiled.bundle, bytes: image.content(compiled.bundle) };
    return derivedEntries(key, { result, bundle });
  });
}

/** Undefined for what another version of Berth made: it stands under that version's key, which is not asked for here. */
function compiledHere(bytes: Uint8Array): CompiledResult | undefined {
  try {
    return readCompiled(bytes);
  } catch (error) {
    if (error instanceof BerthError && error.code === "image_invalid") return undefined;
    throw error;
  }
}

async function planServers(
  plan: Plan,
  store: Store,
  tenant: string,
  base: Manifest | undefined,
  manifest: Manifest,
): Promise<void> {
  const blockOf = ({ definition_cid: definition, enabled }: Manifest["servers"][number]): Block => {
    const record: ServerRecord = { definition, enabled };
    return jsonBlock(record);
  };
  const theirs = new Map(manifest.servers.map((server) => [server.name, blockOf(server)]));
  const before = new Map(base?.servers.map((server) => [server.name, blockOf(server).cid]));
  const mine = await cidsByName(store, tenant, "server");
  plan.put.push(...theirs.values());
  for (const name of allNames(theirs, before, mine)) {
    planName(plan, { kind: "server", name }, before.get(name), mine.get(name), theirs.get(name)?.cid);
  }
}

async function planVariables(
  plan: Plan,
  store: Store,
  tenant: string,
  base: Manifest | undefined,
  image: Image,
): Promise<void> {
  const cidsOf = (manifest: Manifest | undefined) => {
    const enabled = manifest?.variables.filter((variable) => variable.enabled) ?? [];
    return new Map(enabled.map(({ name, definition_cid: cid }) => [name, cid]));
  };
  const theirs = cidsOf(image.manifest);
  const before = cidsOf(base);
  const mine = await cidsByName(store, tenant, "variable");
  for (const name of allNames(theirs, before, mine)) {
    const [base, here, there] = [before.get(name), mine.get(name), theirs.get(name)];
    const { outcome } = mergeThreeWays(base, here, there, Object.is);
    if (name === "mcps" && outcome === "conflict" && here !== undefined && there !== undefined) {
      await planMcps(plan, store, tenant, image, { base, mine: here, theirs: there });
    } else {
      planName(plan, { kind: "variable", name }, base, here, there);
    }
  }
}

/** Both sides changed the configuration: whoever changed an entry has it. */
async function planMcps(
  plan: Plan,
  store: Store,
  tenant: string,
  image: Image,
  { base, mine, theirs }: { base: Cid | undefined; mine: Cid; theirs: Cid },
): Promise<void> {
  const stored = (cid: Cid): Promise<Uint8Array | undefined> => store.content(tenant, cid);
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
  plan: Plan,
  { kind, name }: { kind: "server" | "variable"; name: string },
  base: Cid | undefined,
  mine: Cid | undefined,
  theirs: Cid | undefined,
): void {
  const merge = mergeThreeWays(base, mine, theirs, Object.is);
  const { outcome } = merge;
  // A name that no image ever knew is a person's own and no business of the image's.
  if (outcome === "same" || (base === undefined && theirs === undefined)) return;
  if (outcome === "conflict") {
    plan.names.push({ kind, name, outcome, message: conflictMessage(`The ${kind} "${name}"`, mine, theirs) });
    return;
  }
  plan.names.push({ kind, name, outcome });
  if (outcome === "kept") return;
  plan.set.push({ kind, name, cid: "value" in merge ? merge.value : null, expected: mine ?? null });
}

function conflictMessage(what: string, mine: Cid | undefined, theirs: Cid | undefined): string {
  if (theirs === undefined) return `${what} is no longer in the image, but was edited here: the edit is kept`;
  if (mine === undefined) return `${what} was removed here and changed by the image: it stays removed`;
  return `${what} was changed here and by the image: the edit is kept; the image has ${theirs}`;
}

async function cidsByName(store: Store, tenant: string, kind: NameKind): Promise<Map<string, Cid>> {
  return new Map((await store.names(tenant, kind)).map(({ name, cid }) => [name, cid]));
}

function allNames(...maps: readonly ReadonlyMap<string, unknown>[]): string[] {
  return [...new Set(maps.flatMap((map) => Array.from(map.keys())))].sort(compareText);
}
