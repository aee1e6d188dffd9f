import type { Rights } from "../access/rights.ts";
import { decodeRecord, decodeJsonInTurns, type Cid } from "../lib/cid.ts";
import type { Reader } from "../lib/json-source.ts";
import type { Contract } from "../contract/contract.ts";
import { soundContract } from "../contract/sound.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import type { Store } from "../store/store.ts";
import type { ReviewedStore } from "./reviewed-store.ts";
import type { McpsLimits } from "../entry/mcps.ts";
import type { Directory, ReadMcps } from "../host/catalog/directory.ts";
import type { ReleaseParts } from "../host/catalog/release.ts";
import {
  entryText,
  guardMcps,
  rawEntriesIn,
  readMcpsText,
  unreadableMcps,
  withEntry,
  writeMember,
} from "./mcps-text.ts";
import { moveDefinition, placeInEntries, removeRecord, setRecord, unseenSource } from "./plan-definition.ts";
import { refuseWithdrawn, withdrawnOf } from "../host/catalog/withdrawn.ts";
import type { EditPlan } from "./plan.ts";
import { proposeTo } from "./proposed-store.ts";

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

/**
 * Plans to restore a server to a release: its definition, and its entry as written then; with `keepEntry` its
 * definition alone.
 */
export async function planRestore(
  store: ReviewedStore,
  reader: Reader & { readonly limits: McpsLimits },
  before: Directory,
  server: string,
  release: Cid,
  { keepEntry = false, rights }: { keepEntry?: boolean; rights: Rights },
): Promise<EditPlan> {
  const { tenant, limits } = reader;
  const isKnown = await store.had(tenant, "release", server, release);
  const parts = isKnown ? await partsOf(store, tenant, release) : undefined;
  const config = parts && (await structure(store, tenant, parts.config));
  if (!parts || !isObject(config)) throw new BerthError("not_found", `"${server}" has no such release`);
  refuseWithdrawn(server, release, await withdrawnOf(store, tenant, server));

  const mcps = await readMcpsText(store, tenant);
  const proposed = proposeTo(store);
  const whole = before.mcps?.cid === mcps.variable ? before.mcps : undefined;
  const entries = await rawEntriesIn(mcps, whole, limits);
  const mayReadAll = rights.has("contents", undefined);
  const request = { store, tenant, limits, before, mayReadAll };
  const plan = {
    current: (await store.name(tenant, "release", server))?.cid ?? null,
    next: release,
    problems: unreadableMcps(entries),
    before,
    proposed,
    isWritten: () => false,
    place: placeInEntries({ reader, name: server, mcps, before, mayReadAll }),
  };
  if (keepEntry) {
    const { definition } = parts;
    if (definition === null || Object.hasOwn(config, "upstream")) {
      throw new BerthError("invalid_params", "that release has no source; without entry=keep all of it is restored");
    }
    const unseen = await unseenSource(request, server, mcps);
    if (unseen.length > 0) return { ...plan, problems: [...plan.problems, ...unseen] };
    return { ...plan, mcps: await moveDefinition(proposed, request, server, definition, mcps) };
  }
  // The release of a server without an entry has an empty one.
  const isNeeded = entries?.has(server) || Object.keys(config).length > 0;
  let foreseen: ReadMcps | undefined;
  if (isNeeded && plan.problems.length === 0) {
    const variable = await writeMember(proposed, tenant, mcps, [server], entryText(config).trimEnd());
    foreseen = withEntry(whole, variable, server, config as JsonObject);
  } else await guardMcps(proposed, tenant, mcps);
  if (parts.definition === null) await removeRecord(proposed, tenant, server);
  else if (!Object.hasOwn(config, "definition")) {
    await setRecord(proposed, tenant, server, { definition: parts.definition, enabled: true });
  }
  return { ...plan, mcps: foreseen, remedy: '; "entry=keep" restores its source alone' };
}

async function partsOf(store: Store, tenant: string, release: Cid): Promise<ReleaseParts | undefined> {
  return (await structure(store, tenant, release)) as ReleaseParts | undefined;
}

async function structure(store: Store, tenant: string, cid: Cid): Promise<unknown> {
  const bytes = await store.content(tenant, cid);
  return bytes && decodeRecord(bytes);
}
