import type { Rights } from "../access/rights.ts";
import { writtenUpstream } from "../entry/command-fields.ts";
import { entryReadBounds, readNamedEntry } from "../entry/mcps.ts";
import { loadPackageSet } from "../host/catalog/compile-once.ts";
import type { ReleaseParts } from "../host/catalog/release.ts";
import { refuseWithdrawn, readWithdrawnReleases } from "../host/catalog/withdrawn.ts";
import type { Directory, ReadMcps } from "../host/directory/directory.ts";
import { packagesImportedBy } from "../host/directory/package-users.ts";
import { hiddenOf } from "../host/directory/visibility.ts";
import { packDefinition } from "../image/definition.ts";
import type { ServerRecord } from "../image/image.ts";
import { decodeRecord, isCid, jsonBlock, rawBlock, type Cid } from "../lib/cid.ts";
import type { Draft } from "../lib/draft.ts";
import { BerthError } from "../lib/errors.ts";
import { yieldToCalls } from "../lib/event-loop.ts";
import { jsonProblems } from "../lib/json-source.ts";
import { parseObjectYielding } from "../lib/json-spans.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import { asPackageSet, PACKAGES, packagesInReach, type PackagesInReach } from "../packages/package-set.ts";
import type { NameMove, NameRecord } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { checkDraft, languageOfDraft, type DraftLimits } from "./draft-checks.ts";
import { readParts, readStructure } from "./earlier-versions.ts";
import type { Subject } from "./edits.ts";
import {
  entryText,
  guardMcps,
  placeIn,
  rawEntriesIn,
  readMcpsText,
  resolveEntry,
  textAt,
  unreadableMcps,
  withEntry,
  withMember,
  writeMember,
  type LocateProblems,
  type McpsText,
} from "./mcps-text.ts";
import { planPackages, type PackagePlanning, type PlannedPackages } from "./plan-packages.ts";
import { proposeTo, type ProposedStore, type ReviewedStore } from "./proposed-store.ts";

/** The changes that an edit would make to a tenant's names, before their effect on its servers is known. */
export interface EditPlan {
  /** The current version, which `next` would replace. */
  readonly current: Cid | null;
  readonly next: Cid | null;
  /** Problems of the draft itself; with any, the proposal is meaningless. */
  readonly problems: readonly Problem[];
  /** Further problems to report to the author of the edit. */
  readonly notices?: readonly Problem[];
  readonly before: Directory;
  /** The configuration after the edit, if known without parsing it. */
  readonly mcps?: ReadMcps | undefined;
  readonly proposed: ProposedStore;
  /** A definition that the edit writes, and its server: it has to load. */
  readonly written?: { readonly server: string; readonly definition: Cid } | undefined;
  /** The packages that definitions import, if the edit changes them. */
  readonly packages?: Pick<PlannedPackages, "before" | "after"> | undefined;
  /** True for a problem with what the edit itself writes. */
  readonly isWritten: (problem: Problem) => boolean;
  /** An alternative if the plan is rejected, as part of a sentence. */
  readonly hint?: string;
  /** Adds the positions of problems in the draft. */
  readonly locate: LocateProblems;
}

/** Variables of one tenant: listing them reads all their names. */
const bounds = fixed({ variablesPerTenant: 12_000 });

/** Neither compiles nor changes anything. `before` is the current directory, `variable` the variable to edit. */
export function planEdit(
  store: ReviewedStore,
  limits: DraftLimits,
  tenant: string,
  before: Directory,
  { kind, name }: Subject,
  draft: Draft | null,
  rights: Rights,
  packages: PackagePlanning,
  variable: NameRecord | undefined,
): Promise<EditPlan> {
  const request: PlanRequest = {
    store,
    tenant,
    before,
    name,
    draft,
    current: variable?.cid ?? null,
    mayReadAll: rights.has("contents", undefined),
    problems: draft ? checkDraft({ kind, name }, draft, limits) : [],
  };
  switch (kind) {
    case "variable":
      if (name !== PACKAGES) return planVariable(request);
      // Every definition of the tenant may import them.
      if (!rights.has("values", undefined)) throw rights.refusal("values", undefined, "to change the packages");
      return planPackageSet(request, packages);
    case "entry":
      return planEntry(request);
    case "definition":
      return planDefinition(request);
  }
}

/** Plans to restore a release: its definition, and its entry as written then; with `keepEntry` only the definition. */
export async function planRestore(
  store: ReviewedStore,
  tenant: string,
  before: Directory,
  server: string,
  release: Cid,
  { keepEntry = false, rights }: { keepEntry?: boolean; rights: Rights },
): Promise<EditPlan> {
  const isKnown = await store.had(tenant, "release", server, release);
  const parts = isKnown ? await readParts(store, tenant, release) : undefined;
  const config = parts && (await readStructure(store, tenant, parts.config));
  if (!parts || !isObject(config)) throw new BerthError("not_found", `"${server}" has no such release`);
  refuseWithdrawn(server, release, await readWithdrawnReleases(store, tenant, server));

  const mcps = await readMcpsText(store, tenant);
  const proposed = proposeTo(store);
  const cached = cachedMcps(mcps, before);
  const entries = await rawEntriesIn(mcps, cached);
  const mayReadAll = rights.has("contents", undefined);
  const request = { store, tenant, before, mayReadAll };
  await guardPackages(proposed, tenant);
  const plan = {
    current: (await store.name(tenant, "release", server))?.cid ?? null,
    next: release,
    problems: unreadableMcps(entries),
    notices: await findPackageDifferences(store, tenant, server, parts),
    before,
    proposed,
    isWritten: () => false,
    locate: placeInEntries({ tenant, name: server, mcps, before, mayReadAll }),
  };
  if (keepEntry) {
    const { definition } = parts;
    if (definition === null || writtenUpstream(config) !== undefined) {
      throw new BerthError("invalid_params", "that release has no source; leave out entry=keep to restore all of it");
    }
    const hidden = await hiddenSourceProblems(request, server, mcps);
    if (hidden.length > 0) return { ...plan, problems: [...plan.problems, ...hidden] };
    return { ...plan, mcps: await moveDefinition(proposed, request, server, definition, mcps) };
  }
  // The release of a server without an entry has an empty one.
  const isNeeded = entries?.has(server) || Object.keys(config).length > 0;
  let updated: ReadMcps | undefined;
  if (isNeeded && plan.problems.length === 0) {
    const variable = await writeMember(proposed, tenant, mcps, [server], entryText(config).trimEnd());
    updated = withEntry(cached, variable, server, config as JsonObject);
  } else await guardMcps(proposed, tenant, mcps);
  if (parts.definition === null) await removeRecord(proposed, tenant, server);
  else if (!Object.hasOwn(config, "definition")) {
    await setRecord(proposed, tenant, server, { definition: parts.definition, enabled: true });
  }
  return { ...plan, mcps: updated, hint: '; "entry=keep" restores the source alone' };
}

/** A restored source uses the current packages. Reports how these differ from those of the release. */
async function findPackageDifferences(
  store: ReviewedStore,
  tenant: string,
  server: string,
  { definition, packages }: ReleaseParts,
): Promise<Problem[]> {
  if (definition === null) return [];
  const then = packages === undefined ? undefined : asPackageSet(await readStructure(store, tenant, packages));
  const imports = await packagesImportedBy(store, tenant, definition);
  const now = packagesInReach(await loadPackageSet(store, tenant), imports);
  const listVersions = (reach: PackagesInReach | undefined): Map<string, string> =>
    new Map(Object.entries(reach?.packages ?? {}).map(([place, { name, version }]) => [place, `${name} ${version}`]));
  const [old, current] = [listVersions(then), listVersions(now)];
  const different = [...new Set([...old.keys(), ...current.keys()])].filter(
    (place) => old.get(place) !== current.get(place),
  );
  if (different.length === 0) return [];
  const listed = different
    .slice(0, DIFFERENCES_LISTED_MAX)
    .map((place) => `${old.get(place) ?? "none"} then, ${current.get(place) ?? "none"} now`);
  const more =
    different.length > DIFFERENCES_LISTED_MAX ? `, and ${different.length - DIFFERENCES_LISTED_MAX} more` : "";
  const message =
    `"${server}" gets the current packages, not those of that release (${listed.join("; ")}${more}); ` +
    "the old release stays addressable unchanged, and its set of packages can be restored from the history of the packages";
  return [{ code: "other-packages", message, severity: "warning" }];
}

const DIFFERENCES_LISTED_MAX = 5;

interface PlanRequest {
  readonly store: ReviewedStore;
  readonly tenant: string;
  readonly before: Directory;
  readonly name: string;
  /** The current value of a variable. */
  readonly current: Cid | null;
  /** Null deletes. */
  readonly draft: Draft | null;
  /** True if the author may read all variables. */
  readonly mayReadAll: boolean;
  /** Problems of the draft that are found without parsing it. */
  readonly problems: readonly Problem[];
}

async function planVariable(request: PlanRequest): Promise<EditPlan> {
  const { store, tenant, before, name, current, draft } = request;
  const text = draft?.files[draft.entry] ?? "";
  const block = rawBlock(text);
  const next = draft ? block.cid : null;
  const content =
    name === "mcps" && draft && request.problems.length === 0
      ? await readConfiguration(request, text)
      : { text, problems: [] };
  const tooMany = draft && current === null && name !== "mcps" ? await checkCount(request) : [];
  const proposed = proposeTo(store);
  const set: NameMove[] = [{ kind: "variable", name, cid: next, expected: current }];
  await proposed.change(tenant, { by: "edit", put: draft ? [block] : [], set });
  return {
    current,
    next,
    problems: [...request.problems, ...tooMany, ...content.problems],
    before,
    proposed,
    isWritten: ({ pointer }) => pointer !== undefined,
    locate: placeIn(tenant, "mcps", content.text),
  };
}

async function planPackageSet(request: PlanRequest, packages: PackagePlanning): Promise<EditPlan> {
  const { tenant, draft } = request;
  if (request.problems.length > 0) return planVariable(request);
  const text = draft ? draft.files[draft.entry]! : null;
  const planned = await planPackages(request, text, packages);
  const completeDraft = draft && { entry: draft.entry, files: { [draft.entry]: planned.text } };
  const problems = planned.problems;
  const plan = await planVariable({ ...request, draft: completeDraft, problems });
  if (problems.length === 0) await plan.proposed.change(tenant, { by: "edit", put: planned.blocks });
  return {
    ...plan,
    packages: planned,
    // Existing problems of a server are not the fault of the packages.
    isWritten: () => false,
    locate: placeIn(tenant, PACKAGES, text ?? ""),
  };
}

/** An existing variable can always be written, and so can `mcps`, without which nothing works. */
async function checkCount({ store, tenant }: PlanRequest): Promise<Problem[]> {
  const { length } = await store.names(tenant, "variable");
  const { variablesPerTenant } = bounds;
  if (length < variablesPerTenant) return [];
  return [
    {
      code: "too-many",
      message: `There are ${length} variables, and the limit is ${variablesPerTenant}`,
      severity: "error",
    },
  ];
}

/** The configuration in a value of `mcps`, or in the content whose CID it is. */
async function readConfiguration(request: PlanRequest, value: string): Promise<{ text: string; problems: Problem[] }> {
  const { store, tenant } = request;
  const cid = value.trim();
  if (!isCid(cid)) return { text: value, problems: await jsonProblems("mcps", value, tenant) };
  if (await store.content(tenant, cid)) {
    const text = await textAt(store, tenant, cid);
    return { text, problems: await jsonProblems(cid, text, tenant) };
  }
  const message = `There is no content with the CID ${cid}; save the configuration itself, not its CID`;
  const problem: Problem = { code: "missing-content", message, severity: "error", file: "mcps", line: 1, column: 1 };
  return { text: "", problems: [problem] };
}

async function planEntry(request: PlanRequest): Promise<EditPlan> {
  const { store, tenant, before, name, draft } = request;
  const mcps = await readMcpsText(store, tenant);
  const cached = cachedMcps(mcps, before);
  const entries = await rawEntriesIn(mcps, cached);
  const raw = entries?.get(name);
  const text = draft?.files[draft.entry] ?? "";
  const { value, wrong: invalid } = await parseEntry(request, text);
  let updated: ReadMcps | undefined;
  const problems = [...request.problems, ...invalid, ...unreadableMcps(entries)];
  const proposed = proposeTo(store);
  // Each step may take milliseconds: an entry is parsed as a whole.
  const current = raw === undefined ? null : rawBlock(entryText(raw)).cid;
  await yieldToCalls();
  const next = value === undefined ? null : rawBlock(entryText(value)).cid;
  await yieldToCalls();
  if (problems.length === 0) {
    const variable = await writeMember(proposed, tenant, mcps, [name], draft ? text.trim() : null);
    updated = withEntry(cached, variable, name, value);
    await yieldToCalls();
  }
  return {
    current,
    next,
    problems,
    before,
    mcps: updated,
    proposed,
    isWritten: ({ pointer }) => pointer !== undefined,
    locate: placeIn(tenant, name, text, [name]),
  };
}

/** The value of a draft, or its problems before it is read as an entry. */
async function parseEntry(
  request: PlanRequest,
  text: string,
): Promise<{ readonly value?: Json; readonly wrong: readonly Problem[] }> {
  const { tenant, name, draft } = request;
  if (draft === null || request.problems.length > 0) return { wrong: [] };
  const wrong = await jsonProblems(name, text, tenant);
  if (wrong.length > 0) return { wrong };
  const { value, tooMuch } = await parseObjectYielding(text, entryReadBounds());
  if (!tooMuch) return { value: value as Json, wrong };
  return { wrong: readNamedEntry(name, null, { isTooLong: true }).problems };
}

async function planDefinition(request: PlanRequest): Promise<EditPlan> {
  const { store, tenant, before, name, draft, mayReadAll } = request;
  const mcps = await readMcpsText(store, tenant);
  const problems = [...request.problems, ...(draft ? await hiddenSourceProblems(request, name, mcps) : [])];
  const proposed = proposeTo(store);
  await guardPackages(proposed, tenant);
  let next: Cid | null = null;
  let updated: ReadMcps | undefined;
  if (!draft) {
    updated = await removeServer(proposed, request, name, mcps);
  } else if (problems.length === 0) {
    await dropDamagedVisibility(proposed, tenant, name);
    const packed = packDefinition(draft.entry, draft.files);
    next = packed.cid;
    await proposed.change(tenant, { by: "edit", put: packed.blocks });
    updated = await moveDefinition(proposed, request, name, packed.cid, mcps);
  }
  const current = before.servers.get(name)?.definition ?? null;
  return {
    current,
    next,
    ...(next !== null && next !== current && { written: { server: name, definition: next } }),
    problems,
    before,
    mcps: updated,
    proposed,
    isWritten: ({ pointer }) => pointer === undefined,
    locate: locateInDraft(draft, { tenant, name, mcps, before, mayReadAll }),
  };
}

/** The source was compiled with these packages, so the change must not apply with others. */
async function guardPackages(proposed: ProposedStore, tenant: string): Promise<void> {
  const cid = (await proposed.name(tenant, "variable", PACKAGES))?.cid ?? null;
  await proposed.change(tenant, { by: "edit", set: [{ kind: "variable", name: PACKAGES, cid, expected: cid }] });
}

/** An unreadable record of hidden tools keeps its server refused. */
async function dropDamagedVisibility(proposed: ProposedStore, tenant: string, name: string): Promise<void> {
  const record = await proposed.name(tenant, "visibility", name);
  if (!record || (await hiddenOf(proposed, tenant, name))) return;
  await proposed.change(tenant, { by: "edit", set: [{ kind: "visibility", name, cid: null, expected: record.cid }] });
}

/** A definition of one file is compiled under its server's name, whatever its author calls it. */
function locateInDraft(draft: Draft | null, target: LocateTarget): LocateProblems {
  const locateInMcps = placeInEntries(target);
  if (!draft || Object.keys(draft.files).length !== 1) return locateInMcps;
  const compiledAs = `${target.name}.${languageOfDraft(draft) === "shell" ? "sh" : "ts"}`;
  const toDraftFile = (problem: Problem): Problem =>
    problem.file === compiledAs ? { ...problem, file: draft.entry } : problem;
  return async (problems) => (await locateInMcps(problems)).map(toDraftFile);
}

interface LocateTarget {
  readonly tenant: string;
  readonly name: string;
  readonly mcps: McpsText;
  readonly before: Directory;
  readonly mayReadAll: boolean;
}

/**
 * Locates problems of entries for the author of one server's source. An author who may not read everything sees only
 * that server's entry: in the whole configuration, other entries may be on the same line.
 */
function placeInEntries({ tenant, name, mcps, before, mayReadAll }: LocateTarget): LocateProblems {
  if (mayReadAll) return placeIn(tenant, "mcps", mcps.text);
  return async (problems) => {
    const raw = (await rawEntriesIn(mcps, cachedMcps(mcps, before)))?.get(name);
    return placeIn(tenant, name, raw === undefined ? "" : entryText(raw), [name])(problems);
  };
}

/** If the entry hosts an upstream, the source would not be used until the entry changes. */
async function hiddenSourceProblems(
  { store, tenant, before }: Pick<PlanRequest, "store" | "tenant" | "before">,
  name: string,
  mcps: McpsText,
): Promise<Problem[]> {
  const entries = await rawEntriesIn(mcps, cachedMcps(mcps, before));
  const { entry } = await resolveEntry(store, tenant, entries?.get(name));
  if (writtenUpstream(entry) === undefined) return [];
  const message = `The entry of "${name}" hosts an upstream, so a definition would not be served; change the entry first`;
  return [{ code: "two-kinds", message, severity: "error" }];
}

function cachedMcps(mcps: McpsText, before: Directory): ReadMcps | undefined {
  return before.mcps?.cid === mcps.variable ? before.mcps : undefined;
}

/**
 * Sets a server's definition where it is currently named: in its entry, or else in its own record. If the configuration
 * changes and was cached, returns its new value: thousands of entries need not be parsed again.
 */
async function moveDefinition(
  proposed: ProposedStore,
  { tenant, before, mayReadAll }: Pick<PlanRequest, "tenant" | "before" | "mayReadAll">,
  name: string,
  definition: Cid,
  mcps: McpsText,
): Promise<ReadMcps | undefined> {
  const whole = cachedMcps(mcps, before);
  const entries = await rawEntriesIn(mcps, whole);
  const raw = entries?.get(name);
  const { entry, through } = await resolveEntry(proposed, tenant, raw);
  if (isObject(entry) && Object.hasOwn(entry, "definition")) {
    const cid = await moveInEntry(proposed, tenant, name, definition, through, mcps);
    return withEntry(whole, cid, name, { ...(entry as JsonObject), definition });
  }
  const record = await proposed.name(tenant, "server", name);
  const stored = record && (await unlessDamaged(proposed.content(tenant, record.cid)));
  const current = stored && decodeRecord(stored);
  await setRecord(proposed, tenant, name, {
    definition,
    enabled: !(isObject(current) && current["enabled"] === false),
  });
  // A new server also gets an entry, which its owner can extend; its code may read no more than its author.
  const isNew = !record && raw === undefined && entries !== undefined;
  if (isNew) {
    const newEntry: JsonObject = mayReadAll ? {} : { variables: [] };
    return withEntry(
      whole,
      await writeMember(proposed, tenant, mcps, [name], JSON.stringify(newEntry)),
      name,
      newEntry,
    );
  }
  await guardMcps(proposed, tenant, mcps);
  return undefined;
}

/** An entry in content of its own is rewritten there. Returns the CID of the variable's value. */
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

/** A server without a definition no longer exists, so its record and its entry are removed. */
async function removeServer(
  proposed: ProposedStore,
  { tenant, before }: PlanRequest,
  name: string,
  mcps: McpsText,
): Promise<ReadMcps | undefined> {
  await removeRecord(proposed, tenant, name);
  const whole = cachedMcps(mcps, before);
  if ((await rawEntriesIn(mcps, whole))?.has(name)) {
    return withEntry(whole, await writeMember(proposed, tenant, mcps, [name], null), name);
  }
  await guardMcps(proposed, tenant, mcps);
  return undefined;
}

async function setRecord(proposed: ProposedStore, tenant: string, name: string, record: ServerRecord): Promise<void> {
  const block = jsonBlock(record);
  const expected = (await proposed.name(tenant, "server", name))?.cid ?? null;
  const set: NameMove[] = [{ kind: "server", name, cid: block.cid, expected }];
  await proposed.change(tenant, { by: "edit", put: [block], set });
}

async function removeRecord(proposed: ProposedStore, tenant: string, name: string): Promise<void> {
  const record = await proposed.name(tenant, "server", name);
  if (!record) return;
  await proposed.change(tenant, { by: "edit", set: [{ kind: "server", name, cid: null, expected: record.cid }] });
}
