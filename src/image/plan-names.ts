import { jsonBlock, type Block, type Cid } from "../lib/cid.ts";
import { ifSound } from "../store/if-sound.ts";
import type { NameKind, NameMove, Store } from "../store/store.ts";
import type { Image, Manifest, ServerRecord } from "./image.ts";
import { mergeMcps } from "./merge-mcps.ts";
import { mergeThreeWays } from "./merge.ts";
import { compareText } from "../lib/pretty-json.ts";

/** The changes that an image makes to the names of a tenant, merged three ways: applied last, stored now, new. */
export interface NamesPlan {
  readonly put: Block[];
  readonly set: NameMove[];
  readonly names: NameReport[];
}

export interface NameReport {
  readonly kind: "server" | "variable";
  readonly name: string;
  /** The entry of the variable `mcps` that was changed. */
  readonly entry?: string;
  /** `kept`: edited here, and the image did not change it. `conflict`: both changed it, and the edit stands. */
  readonly outcome: "added" | "updated" | "removed" | "kept" | "conflict";
  readonly message?: string;
}

/** Adds the changes of servers and variables to the plan. `base` is the manifest that was applied last. */
export async function planNames(
  plan: NamesPlan,
  store: Store,
  tenant: string,
  base: Manifest | undefined,
  image: Image,
): Promise<void> {
  await planServers(plan, store, tenant, base, image.manifest);
  await planVariables(plan, store, tenant, base, image);
}

async function planServers(
  plan: NamesPlan,
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
  plan: NamesPlan,
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

/** Both sides changed the configuration: each entry goes to the side that changed it. */
async function planMcps(
  plan: NamesPlan,
  store: Store,
  tenant: string,
  image: Image,
  { base, mine, theirs }: { base: Cid | undefined; mine: Cid; theirs: Cid },
): Promise<void> {
  const stored = (cid: Cid): Promise<Uint8Array | undefined> => ifSound(store.content(tenant, cid));
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
  // A name that no image ever had belongs to a person, and the image leaves it alone.
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
