import { decodeRecord, jsonBlock, rawBlock, type Cid } from "../lib/cid.ts";
import { packDefinition } from "../image/definition.ts";
import type { ServerRecord } from "../image/image.ts";
import type { Reader } from "../lib/json-source.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { ifSound } from "../store/if-sound.ts";
import type { NameMove } from "../store/store.ts";
import type { McpsLimits } from "../entry/mcps.ts";
import type { Directory, ReadMcps } from "../host/catalog/directory.ts";
import { hiddenOf } from "../host/catalog/visibility.ts";
import type { Draft } from "../lib/draft.ts";
import { languageOfDraft } from "./draft-checks.ts";
import { withMember } from "./json-text.ts";
import {
  entryText,
  guardMcps,
  rawEntriesIn,
  readMcpsText,
  resolveEntry,
  textAt,
  withEntry,
  writeMember,
  type McpsText,
} from "./mcps-text.ts";
import { placeIn, type EditPlace } from "./place.ts";
import type { EditPlan, PlanRequest } from "./plan.ts";
import { proposeTo, type ProposedStore } from "./proposed-store.ts";

export async function planDefinition(request: PlanRequest): Promise<EditPlan> {
  const { store, tenant, before, name, draft, mayReadAll } = request;
  const mcps = await readMcpsText(store, tenant);
  const problems = [...request.problems, ...(draft ? await unseenSource(request, name, mcps) : [])];
  const proposed = proposeTo(store);
  let next: Cid | null = null;
  let foreseen: ReadMcps | undefined;
  if (!draft) {
    foreseen = await removeServer(proposed, request, name, mcps);
  } else if (problems.length === 0) {
    await dropDamagedVisibility(proposed, tenant, name);
    const packed = packDefinition(draft.entry, draft.files);
    next = packed.cid;
    await proposed.change(tenant, { by: "edit", put: packed.blocks });
    foreseen = await moveDefinition(proposed, request, name, packed.cid, mcps);
  }
  const current = before.servers.get(name)?.definition ?? null;
  return {
    current,
    next,
    ...(next !== null && next !== current && { written: { server: name, definition: next } }),
    problems,
    before,
    mcps: foreseen,
    proposed,
    isWritten: ({ pointer }) => pointer === undefined,
    place: placeOf(draft, { reader: request, name, mcps, before, mayReadAll }),
  };
}

/** An unreadable record of what is hidden keeps its server refused. */
async function dropDamagedVisibility(proposed: ProposedStore, tenant: string, name: string): Promise<void> {
  const record = await proposed.name(tenant, "visibility", name);
  if (!record || (await hiddenOf(proposed, tenant, name))) return;
  const set: NameMove[] = [{ kind: "visibility", name, cid: null, expected: record.cid }];
  await proposed.change(tenant, { by: "edit", set });
}

/** A definition of one file is compiled under its server's name, whatever its author calls it. */
function placeOf(draft: Draft | null, configured: Configured): EditPlace {
  const inMcps = placeInEntries(configured);
  if (!draft || Object.keys(draft.files).length !== 1) return inMcps;
  const compiledAs = `${configured.name}.${languageOfDraft(draft) === "shell" ? "sh" : "ts"}`;
  const inDraft = (problem: Problem): Problem =>
    problem.file === compiledAs ? { ...problem, file: draft.entry } : problem;
  return async (problems) => (await inMcps(problems)).map(inDraft);
}

interface Configured {
  readonly reader: Reader & { readonly limits: McpsLimits };
  readonly name: string;
  readonly mcps: McpsText;
  readonly before: Directory;
  readonly mayReadAll: boolean;
}

/**
 * Places problems of entries for the author of one server's source. An author that may not read everything is shown
 * only that server's entry: in the whole configuration, others may stand on the same line.
 */
export function placeInEntries({ reader, name, mcps, before, mayReadAll }: Configured): EditPlace {
  if (mayReadAll) return placeIn(reader, "mcps", mcps.text);
  return async (problems) => {
    const raw = (await rawEntriesIn(mcps, wholeOf(mcps, before), reader.limits))?.get(name);
    return placeIn(reader, name, raw === undefined ? "" : entryText(raw), [name])(problems);
  };
}

/** If the entry hosts an upstream, nobody would see the source until the entry changes. */
export async function unseenSource(
  { store, tenant, limits, before }: Pick<PlanRequest, "store" | "tenant" | "limits" | "before">,
  name: string,
  mcps: McpsText,
): Promise<Problem[]> {
  const entries = await rawEntriesIn(mcps, wholeOf(mcps, before), limits);
  const { entry } = await resolveEntry(store, tenant, entries?.get(name), limits);
  if (!isObject(entry) || !Object.hasOwn(entry, "upstream")) return [];
  const message = `The entry of "${name}" hosts an upstream, so that no source of its own is served; change the entry first`;
  return [{ code: "two-kinds", message, severity: "error" }];
}

function wholeOf(mcps: McpsText, before: Directory): ReadMcps | undefined {
  return before.mcps?.cid === mcps.variable ? before.mcps : undefined;
}

/**
 * Sets a server's definition where it is named now: in its entry, or else in its own record. If the configuration
 * changes and was read whole, returns what it will say: thousands of entries need not be read again.
 */
export async function moveDefinition(
  proposed: ProposedStore,
  { tenant, limits, before, mayReadAll }: Pick<PlanRequest, "tenant" | "limits" | "before" | "mayReadAll">,
  name: string,
  definition: Cid,
  mcps: McpsText,
): Promise<ReadMcps | undefined> {
  const whole = wholeOf(mcps, before);
  const entries = await rawEntriesIn(mcps, whole, limits);
  const raw = entries?.get(name);
  const { entry, through } = await resolveEntry(proposed, tenant, raw, limits);
  if (isObject(entry) && Object.hasOwn(entry, "definition")) {
    const cid = await moveInEntry(proposed, tenant, name, definition, through, mcps);
    return withEntry(whole, cid, name, { ...(entry as JsonObject), definition });
  }
  const record = await proposed.name(tenant, "server", name);
  const stands = record && (await ifSound(proposed.content(tenant, record.cid)));
  const now = stands && decodeRecord(stands);
  await setRecord(proposed, tenant, name, { definition, enabled: !(isObject(now) && now["enabled"] === false) });
  // A new server also gets an entry, which its owner can extend; its code reads no more than its author may.
  const isNew = !record && raw === undefined && entries !== undefined;
  if (isNew) {
    const given: JsonObject = mayReadAll ? {} : { variables: [] };
    return withEntry(whole, await writeMember(proposed, tenant, mcps, [name], JSON.stringify(given)), name, given);
  }
  await guardMcps(proposed, tenant, mcps);
  return undefined;
}

/** An entry that stands in content of its own is rewritten there. Returns the CID of the variable's value. */
async function moveInEntry(
  proposed: ProposedStore,
  tenant: string,
  name: string,
  definition: Cid,
  through: Cid | undefined,
  mcps: McpsText,
): Promise<Cid> {
  const member = JSON.stringify(definition);
  if (through === undefined) return writeMember(proposed, tenant, mcps, [name, "definition"], member);
  const content = rawBlock(await withMember(await textAt(proposed, tenant, through), ["definition"], member));
  await proposed.change(tenant, { by: "edit", put: [content] });
  return writeMember(proposed, tenant, mcps, [name, "config_cid"], JSON.stringify(content.cid));
}

/** A server without its definition no longer exists, so its record and its entry go, too. */
async function removeServer(
  proposed: ProposedStore,
  { tenant, limits, before }: PlanRequest,
  name: string,
  mcps: McpsText,
): Promise<ReadMcps | undefined> {
  await removeRecord(proposed, tenant, name);
  const whole = wholeOf(mcps, before);
  if ((await rawEntriesIn(mcps, whole, limits))?.has(name)) {
    return withEntry(whole, await writeMember(proposed, tenant, mcps, [name], null), name);
  }
  await guardMcps(proposed, tenant, mcps);
  return undefined;
}

export async function setRecord(
  proposed: ProposedStore,
  tenant: string,
  name: string,
  record: ServerRecord,
): Promise<void> {
  const block = jsonBlock(record);
  const expected = (await proposed.name(tenant, "server", name))?.cid ?? null;
  const set: NameMove[] = [{ kind: "server", name, cid: block.cid, expected }];
  await proposed.change(tenant, { by: "edit", put: [block], set });
}

export async function removeRecord(proposed: ProposedStore, tenant: string, name: string): Promise<void> {
  const record = await proposed.name(tenant, "server", name);
  if (!record) return;
  const set: NameMove[] = [{ kind: "server", name, cid: null, expected: record.cid }];
  await proposed.change(tenant, { by: "edit", set });
}
