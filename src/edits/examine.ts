import type { Power, Rights } from "../access/rights.ts";
import { type ContractChange, ChangeSelection } from "../contract/change.ts";
import { compareContractsYielding } from "../contract/compare.ts";
import type { Review, ServerEffect, ToolSummary } from "../contract/review.ts";
import { renderSignature } from "../contract/signature.ts";
import { relaxesConsent } from "../entry/consent-field.ts";
import { type EntryField, entryFields } from "../entry/entry-fields.ts";
import { type ServerEntry, unnamedEntry } from "../entry/entry.ts";
import { loadProblem } from "../executor/load-problem.ts";
import { environmentForTrial } from "../host/calls/environment.ts";
import type { LoadDependencies } from "../host/catalog/build-catalog.ts";
import { createCompileOnce } from "../host/catalog/compile-once.ts";
import type { CompileFor } from "../host/catalog/compile-queue.ts";
import { type PreparedServer, loadCatalog } from "../host/catalog/load-catalog.ts";
import { readWithdrawnReleases } from "../host/catalog/withdrawn.ts";
import { type Directory, type DirectoryEntry, readDirectory, fingerprint } from "../host/directory/directory.ts";
import { changedPackages, serversImporting } from "../host/directory/package-users.ts";
import { programOf } from "../host/directory/tenant-rules.ts";
import type { ExpectedServers, Host } from "../host/host.ts";
import { Journal } from "../host/journal/journal.ts";
import type { Catalog } from "../host/offers/catalog.ts";
import type { HostDependencies } from "../host/open-host.ts";
import { createGuestPort } from "../host/serving/guest-port.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { Cid } from "../lib/cid.ts";
import { cutText } from "../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { yieldToCalls, createYielder } from "../lib/event-loop.ts";
import { type Json, isSameJson } from "../lib/json.ts";
import { PROBLEMS_MAX, type Problem, distinctProblems, furtherProblems } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import type { NameMove, Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { packageChanges, packageWarnings } from "./package-changes.ts";
import type { EditPlan } from "./plan.ts";
import { type ProposedStore, type ReviewedStore, proposeTo } from "./proposed-store.ts";

/** How long a save or a review waits for the lists of all upstreams that it starts; slower ones start later. */
const bounds = fixed({ upstreamSaveMs: 30_000 });
/** How many upstreams a save starts concurrently. */
const UPSTREAM_STARTS = 8;

export interface Examiner extends HostDependencies {
  readonly store: ReviewedStore;
  readonly host: Host;
}

/** A review, and what has to be written for the current releases. */
interface Examination {
  readonly review: Review;
  readonly releases: ReturnType<ProposedStore["proposal"]>;
  /** All servers after the edit; undefined if the plan has problems. */
  readonly after: ExpectedServers | undefined;
}

/**
 * Builds every server that a plan affects, before and after the edit, and reports the differences. The compiler works
 * in its own process; between two servers, this yields to other calls. Rejects if `rights` do not allow a change of the
 * plan, and with `cancelled` once `signal` is aborted.
 */
export async function examine(
  dependencies: Examiner,
  tenant: string,
  plan: EditPlan,
  rights: Rights,
  signal?: CancelSignal,
): Promise<Examination> {
  const compile: CompileFor = (source, of, _, tarballs) => dependencies.compile(source, of, signal, tarballs);
  const examiner = { ...dependencies, compile };
  const problems = new ProblemCollector();
  problems.add(plan.problems);
  problems.add(plan.notices ?? []);
  const servers: ServerEffect[] = [];
  const reportedChanges = new ChangeSelection();
  const reportedTools = new ReportedTools();
  // The current release may never have been loaded, and must remain addressable after it is replaced.
  const currentStore = proposeTo(examiner.store);
  const prepared = new BoundedMap<string, PreparedServer>(PREPARED_MAX);
  let pendingDirectory: ExpectedServers | undefined;
  if (plan.problems.length === 0) {
    const after = await readDirectory(plan.proposed, tenant, plan.before, plan.mcps);
    pendingDirectory = { directory: after, prepared };
    problems.add(newProblems(plan, plan.before.problems, after.problems));
    // An invalid configuration would only remove servers.
    const names = problems.areWarnings ? await findDifferences(plan.before, after) : [];
    if (plan.packages) {
      problems.add(packageWarnings(plan.packages.before, plan.packages.after));
      const changed = await changedPackages(plan.packages.before, plan.packages.after);
      names.push(...(await serversImporting(plan.proposed, tenant, after.servers, changed)));
    }
    await checkRights(tenant, names, { ...plan, after }, rights);
    await currentStore.change(tenant, { by: "edit", set: names.map((name) => expectUnmoved(plan.before, name)) });
    const [upstreamsBefore, upstreamsAfter] = [
      upstreamsOf(plan.before, names, currentStore),
      upstreamsOf(after, names, plan.proposed),
    ];
    const upstreams = [...upstreamsAfter.values(), ...upstreamsBefore.values()];
    const inspect = ({ name, listed, store }: UpstreamProbe): Promise<ServerState> =>
      readState(examiner, tenant, name, listed, store);
    const states = await inspectConcurrently(upstreams, inspect, signal);
    for (const name of names) {
      await yieldToCalls();
      if (signal?.aborted) throw new BerthError("cancelled");
      const before =
        states.get(upstreamsBefore.get(name)) ??
        (await readState(examiner, tenant, name, plan.before.servers.get(name), currentStore));
      await yieldToCalls();
      const afterState =
        states.get(upstreamsAfter.get(name)) ??
        (await readState(examiner, tenant, name, after.servers.get(name), plan.proposed));
      await yieldToCalls();
      if (afterState.prepared) prepared.set(name, afterState.prepared);
      const newOnes = newProblems(plan, before.problems, afterState.problems);
      const toLoad = plan.packages ? definitionToLoad(after.servers.get(name), name) : plan.written;
      if (name === toLoad?.server && afterState.kind === "served") {
        const written = { ...toLoad, entry: after.servers.get(name)?.entry };
        newOnes.push(...(await loadProblems(tenant, written, { ...examiner, store: plan.proposed })));
      }
      problems.add(plan.packages ? prefixServer(name, before, newOnes) : newOnes);
      problems.add(await withdrawnProblems(examiner.store, tenant, name, afterState));
      const effect = await computeEffect(name, before, afterState, reportedChanges, reportedTools);
      if (effect)
        servers.push(plan.packages ? { ...effect, ...(await bundleSizes(before, afterState, plan.proposed)) } : effect);
    }
  }
  const releases = currentStore.proposal();
  return { review: await reviewOf(problems, plan, servers), releases, after: pendingDirectory };
}

/** Makes the save conflict with one that changes the server's record after it was read. */
function expectUnmoved({ servers }: Directory, name: string): NameMove {
  const cid = servers.get(name)?.record?.cid ?? null;
  return { kind: "server", name, cid, expected: cid };
}

/** Few saves change more servers, and each is in memory until the host has taken it. */
const PREPARED_MAX = 4;

async function reviewOf(problems: ProblemCollector, plan: EditPlan, servers: readonly ServerEffect[]): Promise<Review> {
  const { first, further } = problems.report();
  const located = distinctProblems(await plan.locate(first)).sort(byPosition);
  const breaking = servers.some(({ changes }) => changes.some(({ effect }) => effect === "breaking"));
  const packages = plan.packages && packageChanges(plan.packages.before, plan.packages.after);
  const areKnown = packages !== undefined && plan.problems.length === 0;
  return { problems: [...located, ...further], servers, breaking, ...(areKnown && { packages }) };
}

/** The source to load with the changed packages. */
function definitionToLoad(listed: DirectoryEntry | undefined, server: string): EditPlan["written"] {
  return listed?.definition === undefined ? undefined : { server, definition: listed.definition };
}

/** A change of packages names the server of each problem; a server that was not served before blocks no change. */
function prefixServer(server: string, before: ServerState, problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => ({
    ...problem,
    message: `"${server}": ${problem.message}`,
    ...(before.kind !== "served" && { severity: "warning" }),
  }));
}

async function bundleSizes(
  beforeState: ServerState,
  afterState: ServerState,
  store: Store,
): Promise<Pick<ServerEffect, "bundleBytes">> {
  const readBytes = async ({ prepared }: ServerState): Promise<number | undefined> => {
    const bundle = prepared?.release.bundle;
    return bundle ? (await unlessDamaged(store.derived(bundle)))?.length : undefined;
  };
  const [before, after] = [await readBytes(beforeState), await readBytes(afterState)];
  if (before === undefined && after === undefined) return {};
  return { bundleBytes: { ...(before !== undefined && { before }), ...(after !== undefined && { after }) } };
}

/** Problems of all servers that an edit affects: the first ones to report, and the number of the others. */
export class ProblemCollector {
  readonly #first: Problem[] = [];
  readonly #errors: Problem[] = [];
  readonly #seen = new Set<string>();
  #count = 0;
  #errorCount = 0;

  get areWarnings(): boolean {
    return this.#errorCount === 0;
  }

  /** Skips duplicates among the stored problems. */
  add(problems: readonly Problem[]): void {
    for (const problem of problems) {
      const isError = problem.severity === "error";
      // A parse with further problems reports their number itself, as one more problem.
      const isFirst = this.#first.length <= PROBLEMS_MAX;
      const isFirstError = isError && this.#errors.length < PROBLEMS_MAX;
      if (isFirst || isFirstError) {
        const text = JSON.stringify(problem);
        if (this.#seen.has(text)) continue;
        this.#seen.add(text);
        if (isFirst) this.#first.push(problem);
        if (isFirstError) this.#errors.push(problem);
      }
      this.#count += 1;
      if (isError) this.#errorCount += 1;
    }
  }

  /** Errors come before warnings, so that warnings hide no error. */
  report(): { readonly first: readonly Problem[]; readonly further: readonly Problem[] } {
    if (this.#count <= PROBLEMS_MAX + 1) return { first: this.#first, further: [] };
    const warnings = this.#first.filter(({ severity }) => severity === "warning");
    const severity = this.#errorCount > PROBLEMS_MAX ? "error" : "warning";
    return {
      first: [...this.#errors, ...warnings].slice(0, PROBLEMS_MAX),
      further: [furtherProblems(this.#count - PROBLEMS_MAX, severity)],
    };
  }
}

/** Preserves the order of files, and sorts each file by position. */
function byPosition(one: Problem, other: Problem): number {
  if (one.file !== other.file) return 0;
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}

async function findDifferences(before: Directory, after: Directory): Promise<string[]> {
  const names = new Set([...before.servers.keys(), ...after.servers.keys()]);
  const yieldIfDue = createYielder();
  const differing: string[] = [];
  for (const name of names) {
    await yieldIfDue();
    if (!isSame(before.servers.get(name), after.servers.get(name))) differing.push(name);
  }
  return differing.sort();
}

function isSame(before: DirectoryEntry | undefined, after: DirectoryEntry | undefined): boolean {
  if (before === after) return true;
  return before !== undefined && after !== undefined && fingerprint(before) === fingerprint(after);
}

/** An old problem outside of what the edit writes does not block the edit, and becomes a warning. */
export function newProblems(
  plan: Pick<EditPlan, "isWritten">,
  before: readonly Problem[],
  after: readonly Problem[],
): Problem[] {
  const existing = new Set(before.map(problemKey));
  return after.map((problem) =>
    plan.isWritten(problem) || !existing.has(problemKey(problem)) ? problem : { ...problem, severity: "warning" },
  );
}

/** Ignores the position, which moves with the lines before it. */
function problemKey({ code, message, tool, file, pointer }: Problem): string {
  return JSON.stringify([code, message, tool, file, pointer]);
}

/** A withdrawn release is not restored by saving the same content again. */
async function withdrawnProblems(
  store: Store,
  tenant: string,
  server: string,
  { catalog }: ServerState,
): Promise<Problem[]> {
  if (!catalog) return [];
  const withdrawn = await readWithdrawnReleases(store, tenant, server);
  if (!withdrawn?.releases.has(catalog.release)) return [];
  if (withdrawn.problem) return [withdrawn.problem];
  const message = `"${server}" would be its release ${catalog.release} again, which was withdrawn; reinstate that first`;
  return [{ code: "release-withdrawn", message, severity: "error" }];
}

/** An upstream that may have to be started to know what it offers. */
interface UpstreamProbe {
  readonly name: string;
  readonly listed: DirectoryEntry;
  readonly store: Store;
}

function upstreamsOf(
  { servers }: Directory,
  names: readonly string[],
  store: Store,
): ReadonlyMap<string, UpstreamProbe> {
  const probes = new Map<string, UpstreamProbe>();
  for (const name of names) {
    const listed = servers.get(name);
    if (listed?.enabled && listed.entry.upstream !== undefined) probes.set(name, { name, listed, store });
  }
  return probes;
}

/**
 * The states of upstreams, which are started concurrently. One that has not answered in time continues to start without
 * delaying the save: its contract is accepted when it arrives.
 */
async function inspectConcurrently(
  looks: readonly UpstreamProbe[],
  look: (look: UpstreamProbe) => Promise<ServerState>,
  signal: CancelSignal | undefined,
): Promise<ReadonlyMap<UpstreamProbe | undefined, ServerState>> {
  const { upstreamSaveMs } = bounds;
  const states = new Map<UpstreamProbe | undefined, ServerState>(
    looks.map((each) => [each, starting(each.name, upstreamSaveMs)]),
  );
  if (looks.length === 0) return states;
  const queue = [...looks];
  const deadline = new AbortController();
  const worker = async (): Promise<void> => {
    for (let each = queue.shift(); each && !deadline.signal.aborted; each = queue.shift()) {
      const state = await look(each);
      if (!deadline.signal.aborted) states.set(each, state);
    }
  };
  const all = Promise.all(Array.from({ length: UPSTREAM_STARTS }, worker));
  all.catch(() => {});
  const stop = (): void => deadline.abort();
  const timer = setTimeout(stop, upstreamSaveMs);
  signal?.addEventListener("abort", stop);
  try {
    await Promise.race([all, new Promise((resolve) => deadline.signal.addEventListener("abort", resolve))]);
  } finally {
    stop();
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
  return states;
}

function starting(name: string, ms: number): ServerState {
  const message = `"${name}" has not answered within ${ms / 1000} s: it is still starting, and its contract is taken over when it arrives.`;
  return { kind: "starting", problems: [{ code: "upstream-starting", message, severity: "warning" }] };
}

interface ServerState {
  /** `starting`: what it offers is unknown so far. */
  readonly kind: "absent" | "disabled" | "refused" | "served" | "starting";
  readonly catalog?: Catalog;
  readonly prepared?: PreparedServer;
  readonly problems: readonly Problem[];
}

/** Errors that the author cannot fix. */
const SERVICE_ERRORS: ReadonlySet<ErrorCode> = new Set([
  "check_failed",
  "compiler_failed",
  "store_failed",
  "store_uncertain",
  "no_descriptors",
  "too_many_processes",
  "too_many_requests",
  "cancelled",
]);

async function readState(
  examiner: Examiner,
  tenant: string,
  name: string,
  listed: DirectoryEntry | undefined,
  store: Store,
): Promise<ServerState> {
  if (!listed) return { kind: "absent", problems: [] };
  if (!listed.enabled) return { kind: "disabled", problems: listed.problems };
  try {
    const port = createGuestPort(tenant, name, withoutEffects(examiner.host), store, examiner.guestRequests);
    const loaded = await loadCatalog(tenant, name, listed, port, loadDependencies(examiner, store));
    return { kind: "served", ...loaded, problems: loaded.catalog.problems };
  } catch (error) {
    if (!(error instanceof BerthError) || SERVICE_ERRORS.has(error.code)) throw error;
    return { kind: "refused", problems: toProblems(error) };
  }
}

/** A server that is only reviewed serves no clients, so nothing of it is counted. */
function loadDependencies(examiner: Examiner, store: Store): LoadDependencies {
  return {
    ...examiner,
    store,
    findServer: (tenant, name) => examiner.host.server(tenant, name),
    journal: new Journal(),
    isTrial: true,
  };
}

/** A reviewed server changes nothing either. */
function withoutEffects(host: Host): Parameters<typeof createGuestPort>[2] {
  return { ...host, resourceUpdated: () => true, setVisible: () => Promise.resolve() };
}

function toProblems(error: BerthError): readonly Problem[] {
  const problems = error.data?.["problems"] as readonly Problem[] | undefined;
  if (problems?.length) return problems;
  return [{ code: error.code.replaceAll("_", "-"), message: error.message, severity: "error" }];
}

async function computeEffect(
  server: string,
  beforeState: ServerState,
  afterState: ServerState,
  reportedChanges: ChangeSelection,
  reportedTools: ReportedTools,
): Promise<ServerEffect | undefined> {
  const [before, after] = [beforeState.catalog, afterState.catalog];
  const versions = { ...(before && { before: before.release }), ...(after && { after: after.release }) };
  if (before && after) {
    if (before.release === after.release) return undefined;
    const changes = reportedChanges.of(await compareContractsYielding(before.contract, after.contract));
    const newBehaviour = await changedBehaviour(before, after);
    const first = reportedChanges.names(newBehaviour);
    return {
      server,
      outcome: "changed",
      ...versions,
      changes: first.length === newBehaviour.length ? changes : [...changes, summarizeRest(newBehaviour, first)],
      newBehaviour: first,
    };
  }
  if (afterState.kind === "starting") {
    const changes = before ? [unknownContract(server)] : [];
    return { server, outcome: "starting", ...versions, changes, newBehaviour: [] };
  }
  if (after) {
    const tools = await reportedTools.of(after.contract.tools);
    return { server, outcome: "added", ...versions, changes: [], tools, newBehaviour: [] };
  }
  if (!before) return undefined;
  if (afterState.kind === "refused") return { server, outcome: "refused", ...versions, changes: [], newBehaviour: [] };
  return { server, outcome: "removed", ...versions, changes: [removal(server, afterState)], newBehaviour: [] };
}

/** Reports the first tools of new servers, up to this many per review. */
class ReportedTools {
  #left = TOOLS_REPORTED_MAX;

  async of(tools: Catalog["contract"]["tools"]): Promise<readonly ToolSummary[]> {
    const yieldIfDue = createYielder();
    const reported: ToolSummary[] = [];
    for (const tool of tools.slice(0, this.#left)) {
      await yieldIfDue();
      const description = cutText(tool.description ?? tool.title ?? "", TEXT_UNITS_MAX);
      reported.push({ name: tool.name, signature: cutText(renderSignature(tool), TEXT_UNITS_MAX), description });
    }
    this.#left -= reported.length;
    return reported;
  }
}

const TOOLS_REPORTED_MAX = 200;
/** In UTF-16 code units. */
const TEXT_UNITS_MAX = 500;

function summarizeRest(all: readonly string[], reported: readonly string[]): ContractChange {
  const message = `The code of ${all.length - reported.length} more tools has changed behind the same contract.`;
  return { subject: "server", name: "", effect: "review", message };
}

function unknownContract(server: string): ContractChange {
  const message = `What "${server}" will offer is unknown until it has started, so it may break callers.`;
  return { subject: "server", name: "", effect: "breaking", message };
}

function removal(server: string, { kind }: ServerState): ContractChange {
  const message = `The server "${server}" ${kind === "disabled" ? "is disabled" : "is removed"}: every request to it fails.`;
  return { subject: "server", name: "", effect: "breaking", message };
}

/** Tools whose implementation changes under the same contract. */
async function changedBehaviour(before: Catalog, after: Catalog): Promise<string[]> {
  const yieldIfDue = createYielder();
  const names: string[] = [];
  for (const { name } of before.contract.tools) {
    await yieldIfDue();
    const [old, current] = [before.identity(name), after.identity(name)];
    if (old && current && old.contract === current.contract && old.implementation !== current.implementation)
      names.push(name);
  }
  return names;
}

/** One change that an edit makes to what a server is or is granted. */
interface PowerChange {
  readonly server: string;
  readonly power: Power;
  /** The field of the entry; absent for a source. */
  readonly field?: string;
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
}

/**
 * Rejects an edit that changes what its author may not change, by whatever path: all grants of each server are
 * compared, before and after. Nothing has been compiled or started for the edit yet. `hint` ends the message. Rejects
 * with `forbidden` or `programs_refused`, with the changes as data.
 */
async function checkRights(
  tenant: string,
  names: readonly string[],
  { before, after, hint = "" }: { before: Directory; after: Directory; hint?: string | undefined },
  rights: Rights,
): Promise<void> {
  const yieldIfDue = createYielder();
  for (const name of names) {
    await yieldIfDue();
    const [old, updated] = [before.servers.get(name), after.servers.get(name)];
    const changes = listChanges(tenant, name, old, updated);
    const refused = changes.filter(({ power }) => !rights.has(power, name));
    const [first] = refused;
    if (first) {
      const fields = [...new Set(refused.map(({ field }) => `"${field ?? "source"}"`))].join(", ");
      const doing = `the server "${name}" would have another ${fields}${hint}; that`;
      throw rights.refusal(first.power, name, doing, { changes: refused });
    }
    if (changes.some(({ power }) => power === "source")) checkVariables(name, updated, rights);
  }
}

function listChanges(
  tenant: string,
  server: string,
  old: DirectoryEntry | undefined,
  updated: DirectoryEntry | undefined,
): PowerChange[] {
  const changes: PowerChange[] = [];
  if (old && relaxesConsent(old.entry, updated?.entry)) {
    const [before, after] = [old.entry.raw["consent"], updated?.entry.raw["consent"]];
    changes.push({ server, power: "approvals", field: "consent", before, after });
  }
  // A deleted server loses all its grants.
  if (!updated) return [...changes, { server, power: "source" }];
  const program = programOf(tenant, updated);
  if (program !== undefined && program !== (old && programOf(tenant, old))) {
    changes.push({ server, power: "programs", field: "upstream", after: updated.entry.upstream });
  }
  const [before, after] = [old?.entry.raw ?? {}, updated.entry.raw];
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (field === "definition" || isSameJson(before[field], after[field])) continue;
    // Only a principal that may do everything sets which variables a new server may read; any author may let it read
    // none.
    if (!old && field === "variables" && isSameJson(after[field], [])) continue;
    const power = requiredPower(field, before[field], after[field]);
    const change: PowerChange = { server, field, before: before[field], after: after[field], power };
    changes.push(change);
    // An approval by an entry also needs the right to change the entry.
    if (power === "approvals") changes.push({ ...change, power: "entry" });
  }
  if (old && old.enabled !== updated.enabled && old.entry.enabled === updated.entry.enabled) {
    changes.push({ server, power: "entry", field: "enabled", before: old.enabled, after: updated.enabled });
  }
  if (old?.definition !== updated.definition) changes.push({ server, power: "source" });
  return changes;
}

function requiredPower(name: string, before: Json | undefined, after: Json | undefined): Power {
  const fields: Readonly<Record<string, Partial<EntryField>>> = entryFields;
  const { right = "entry", strictness, schema } = fields[name] ?? {};
  if (!strictness) return right;
  const rank = (value: Json = null): number =>
    strictness.indexOf(strictness.includes(value) ? value : schema!["default"]!);
  return rank(after) < rank(before) ? "approvals" : right;
}

/** Code reads on behalf of its author, so it must not read what the author may not. */
function checkVariables(server: string, updated: DirectoryEntry | undefined, rights: Rights): void {
  if (!updated || updated.entry.variables !== undefined) return;
  if (rights.has("contents", undefined)) return;
  const doing =
    `the code of the server "${server}" may read every variable until its entry in mcps lists the ones it may read ` +
    '("variables": ["…"], or [] for none); to write such code';
  throw rights.refusal("contents", undefined, doing);
}

/** The problems that keep a compiled definition from loading. None if the service cannot try the definition now. */
export async function loadProblems(
  tenant: string,
  {
    server,
    definition,
    entry = unnamedEntry,
  }: { readonly server: string; readonly definition: Cid; readonly entry?: ServerEntry | undefined },
  dependencies: Pick<HostDependencies, "store" | "compile" | "compileKey" | "executor">,
): Promise<Problem[]> {
  const { executor } = dependencies;
  const compileOnce = createCompileOnce(tenant, dependencies);
  const source = await compileOnce.source(server, definition);
  if (source.language !== "typescript") return [];
  const { bundle } = await compileOnce(definition, source);
  if (bundle === null) return [];
  const code = (): Promise<Uint8Array> => compileOnce.code(server, definition, bundle);
  const problem = loadProblem(
    await executor.load({ tenant, code, env: async () => environmentForTrial(entry) }),
    source.entry,
  );
  return problem ? [problem] : [];
}
