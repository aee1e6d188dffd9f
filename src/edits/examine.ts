import type { Power, Rights } from "../access/rights.ts";
import { type ContractChange, ToldChanges } from "../contract/change.ts";
import { compareInTurns } from "../contract/compare.ts";
import type { Review, ServerEffect, ToldTool } from "../contract/review.ts";
import { signatureOf } from "../contract/signature.ts";
import { relaxesConsent } from "../entry/consent-field.ts";
import { type EntryField, entryFields } from "../entry/entry-fields.ts";
import { type ServerEntry, unnamedEntry } from "../entry/entry.ts";
import { loadProblem } from "../executor/load-problem.ts";
import { environmentForTrial } from "../host/calls/environment.ts";
import type { LoadDependencies } from "../host/catalog/build-catalog.ts";
import { compilingOnce } from "../host/catalog/compile-once.ts";
import type { CompileFor } from "../host/catalog/compile-queue.ts";
import { type PreparedServer, loadCatalog } from "../host/catalog/load-catalog.ts";
import { withdrawnOf } from "../host/catalog/withdrawn.ts";
import { type Directory, type DirectoryEntry, readDirectory, saidOf } from "../host/directory/directory.ts";
import { changedPackages, serversImporting } from "../host/directory/package-users.ts";
import { programOf } from "../host/directory/tenant-rules.ts";
import type { Foreseen, Host } from "../host/host.ts";
import { Journal } from "../host/journal/journal.ts";
import type { Catalog } from "../host/offers/catalog.ts";
import type { HostDependencies } from "../host/open-host.ts";
import { guestPort } from "../host/serving/guest-port.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { Cid } from "../lib/cid.ts";
import { cutText } from "../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { nextTurn, turnTaker } from "../lib/event-loop.ts";
import { type Json, isSameJson } from "../lib/json.ts";
import { PROBLEMS_MAX, type Problem, distinctProblems, furtherProblems } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import { ifSound } from "../store/if-sound.ts";
import type { NameMove, Store } from "../store/store.ts";
import { packageChanges, packageWarnings } from "./package-changes.ts";
import type { EditPlan } from "./plan.ts";
import { type ProposedStore, type ReviewedStore, proposeTo } from "./proposed-store.ts";

/** How long a save or a review waits for the lists of all upstreams that it starts; others start later. */
const bounds = fixed({ upstreamSaveMs: 30_000 });
/** How many upstreams a save starts at a time. */
const UPSTREAM_STARTS = 8;

export interface Examiner extends HostDependencies {
  readonly store: ReviewedStore;
  readonly host: Host;
}

/** A review, and what has to be written for the releases that stand now. */
interface Examined {
  readonly review: Review;
  readonly releases: ReturnType<ProposedStore["proposal"]>;
  /** All servers as they would be; undefined when the plan has problems. */
  readonly after: Foreseen | undefined;
}

/**
 * Builds every server that a plan touches, as it is and as it would be, and tells the differences. The compiler works
 * in its own process; between two servers, calls have turns in this one. Rejects when `rights` do not allow a change of
 * the plan, and with `cancelled` once `signal` is aborted.
 */
export async function examine(
  dependencies: Examiner,
  tenant: string,
  plan: EditPlan,
  rights: Rights,
  signal?: CancelSignal,
): Promise<Examined> {
  const compile: CompileFor = (source, of, _, tarballs) => dependencies.compile(source, of, signal, tarballs);
  const examiner = { ...dependencies, compile };
  const problems = new GatheredProblems();
  problems.add(plan.problems);
  problems.add(plan.told ?? []);
  const servers: ServerEffect[] = [];
  const told = new ToldChanges();
  const toldTools = new ToldTools();
  // The current release may never have been loaded, and must still be addressable once it is replaced.
  const standing = proposeTo(examiner.store);
  const prepared = new BoundedMap<string, PreparedServer>(PREPARED_MAX);
  let foreseen: Foreseen | undefined;
  if (plan.problems.length === 0) {
    const after = await readDirectory(plan.proposed, tenant, plan.before, plan.mcps);
    foreseen = { directory: after, prepared };
    problems.add(newProblems(plan, plan.before.problems, after.problems));
    // A configuration that is refused as a whole would only remove servers.
    const names = problems.areWarnings ? await differing(plan.before, after) : [];
    if (plan.packages) {
      problems.add(packageWarnings(plan.packages.before, plan.packages.after));
      const changed = await changedPackages(plan.packages.before, plan.packages.after);
      names.push(...(await serversImporting(plan.proposed, tenant, after.servers, changed)));
    }
    await checkRights(tenant, names, { ...plan, after }, rights);
    await standing.change(tenant, { by: "edit", set: names.map((name) => unmovedRecord(plan.before, name)) });
    const [stood, stands] = [upstreamsOf(plan.before, names, standing), upstreamsOf(after, names, plan.proposed)];
    const looks = [...stands.values(), ...stood.values()];
    const look = ({ name, listed, store }: Look): Promise<State> => stateOf(examiner, tenant, name, listed, store);
    const states = await lookSideBySide(looks, look, signal);
    for (const name of names) {
      await nextTurn();
      if (signal?.aborted) throw new BerthError("cancelled");
      const was =
        states.get(stood.get(name)) ?? (await stateOf(examiner, tenant, name, plan.before.servers.get(name), standing));
      await nextTurn();
      const would =
        states.get(stands.get(name)) ?? (await stateOf(examiner, tenant, name, after.servers.get(name), plan.proposed));
      await nextTurn();
      if (would.prepared) prepared.set(name, would.prepared);
      const found = newProblems(plan, was.problems, would.problems);
      const tried = plan.packages ? triedBy(after.servers.get(name), name) : plan.written;
      if (name === tried?.server && would.kind === "served") {
        const written = { ...tried, entry: after.servers.get(name)?.entry };
        found.push(...(await loadProblems(tenant, written, { ...examiner, store: plan.proposed })));
      }
      problems.add(plan.packages ? ofServer(name, was, found) : found);
      problems.add(await withdrawnProblems(examiner.store, tenant, name, would));
      const effect = await effectOn(name, was, would, told, toldTools);
      if (effect) servers.push(plan.packages ? { ...effect, ...(await sizesOf(was, would, plan.proposed)) } : effect);
    }
  }
  const releases = standing.proposal();
  return { review: await reviewOf(problems, plan, servers), releases, after: foreseen };
}

/** Has the save conflict with one that changes the server's record after it was read. */
function unmovedRecord({ servers }: Directory, name: string): NameMove {
  const cid = servers.get(name)?.record?.cid ?? null;
  return { kind: "server", name, cid, expected: cid };
}

/** Few saves change more servers, and each is held in memory until the host has it. */
const PREPARED_MAX = 4;

async function reviewOf(problems: GatheredProblems, plan: EditPlan, servers: readonly ServerEffect[]): Promise<Review> {
  const { first, further } = problems.told();
  const placed = distinctProblems(await plan.place(first)).sort(byPlace);
  const breaking = servers.some(({ changes }) => changes.some(({ effect }) => effect === "breaking"));
  const packages = plan.packages && packageChanges(plan.packages.before, plan.packages.after);
  const areKnown = packages !== undefined && plan.problems.length === 0;
  return { problems: [...placed, ...further], servers, breaking, ...(areKnown && { packages }) };
}

/** The source that other packages are tried with. */
function triedBy(listed: DirectoryEntry | undefined, server: string): EditPlan["written"] {
  return listed?.definition === undefined ? undefined : { server, definition: listed.definition };
}

/** A change of packages names the server that a problem is of; one that was not served before refuses no change. */
function ofServer(server: string, was: State, problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => ({
    ...problem,
    message: `"${server}": ${problem.message}`,
    ...(was.kind !== "served" && { severity: "warning" }),
  }));
}

async function sizesOf(was: State, would: State, store: Store): Promise<Pick<ServerEffect, "bundleBytes">> {
  const bytesOf = async ({ prepared }: State): Promise<number | undefined> => {
    const bundle = prepared?.release.bundle;
    return bundle ? (await ifSound(store.derived(bundle)))?.length : undefined;
  };
  const [before, after] = [await bytesOf(was), await bytesOf(would)];
  if (before === undefined && after === undefined) return {};
  return { bundleBytes: { ...(before !== undefined && { before }), ...(after !== undefined && { after }) } };
}

/** Problems of all servers that an edit touches: those of each kind that are reported, and the number of all others. */
export class GatheredProblems {
  readonly #first: Problem[] = [];
  readonly #errors: Problem[] = [];
  readonly #known = new Set<string>();
  #count = 0;
  #errorCount = 0;

  get areWarnings(): boolean {
    return this.#errorCount === 0;
  }

  /** Skips duplicates as long as problems are kept. */
  add(problems: readonly Problem[]): void {
    for (const problem of problems) {
      const isError = problem.severity === "error";
      // A reading with further problems reports their number itself, as one more problem.
      const isFirst = this.#first.length <= PROBLEMS_MAX;
      const isFirstError = isError && this.#errors.length < PROBLEMS_MAX;
      if (isFirst || isFirstError) {
        const text = JSON.stringify(problem);
        if (this.#known.has(text)) continue;
        this.#known.add(text);
        if (isFirst) this.#first.push(problem);
        if (isFirstError) this.#errors.push(problem);
      }
      this.#count += 1;
      if (isError) this.#errorCount += 1;
    }
  }

  /** Errors come before warnings, so that warnings hide no error. */
  told(): { readonly first: readonly Problem[]; readonly further: readonly Problem[] } {
    if (this.#count <= PROBLEMS_MAX + 1) return { first: this.#first, further: [] };
    const warnings = this.#first.filter(({ severity }) => severity === "warning");
    const severity = this.#errorCount > PROBLEMS_MAX ? "error" : "warning";
    return {
      first: [...this.#errors, ...warnings].slice(0, PROBLEMS_MAX),
      further: [furtherProblems(this.#count - PROBLEMS_MAX, severity)],
    };
  }
}

/** Keeps the order of files, and sorts each file from its top. */
function byPlace(one: Problem, other: Problem): number {
  if (one.file !== other.file) return 0;
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}

async function differing(before: Directory, after: Directory): Promise<string[]> {
  const names = new Set([...before.servers.keys(), ...after.servers.keys()]);
  const takeTurns = turnTaker();
  const found: string[] = [];
  for (const name of names) {
    await takeTurns();
    if (!isSame(before.servers.get(name), after.servers.get(name))) found.push(name);
  }
  return found.sort();
}

function isSame(before: DirectoryEntry | undefined, after: DirectoryEntry | undefined): boolean {
  if (before === after) return true;
  return before !== undefined && after !== undefined && saidOf(before) === saidOf(after);
}

/** An old problem outside of what the edit writes does not refuse the edit, and becomes a warning. */
export function newProblems(
  plan: Pick<EditPlan, "isWritten">,
  before: readonly Problem[],
  after: readonly Problem[],
): Problem[] {
  const stood = new Set(before.map(identityOf));
  return after.map((problem) =>
    plan.isWritten(problem) || !stood.has(identityOf(problem)) ? problem : { ...problem, severity: "warning" },
  );
}

/** Ignores the place, which moves with the lines before it. */
function identityOf({ code, message, tool, file, pointer }: Problem): string {
  return JSON.stringify([code, message, tool, file, pointer]);
}

/** A withdrawn release does not come back by being written again. */
async function withdrawnProblems(store: Store, tenant: string, server: string, { catalog }: State): Promise<Problem[]> {
  if (!catalog) return [];
  const withdrawn = await withdrawnOf(store, tenant, server);
  if (!withdrawn?.releases.has(catalog.release)) return [];
  if (withdrawn.problem) return [withdrawn.problem];
  const message = `"${server}" would be its release ${catalog.release} again, which was withdrawn; reinstate that first`;
  return [{ code: "release-withdrawn", message, severity: "error" }];
}

/** An upstream that may have to be started to know what it offers. */
interface Look {
  readonly name: string;
  readonly listed: DirectoryEntry;
  readonly store: Store;
}

function upstreamsOf({ servers }: Directory, names: readonly string[], store: Store): ReadonlyMap<string, Look> {
  const looks = new Map<string, Look>();
  for (const name of names) {
    const listed = servers.get(name);
    if (listed?.enabled && listed.entry.upstream !== undefined) looks.set(name, { name, listed, store });
  }
  return looks;
}

/**
 * The states of upstreams, which are started side by side. One that has not answered in time goes on starting, and the
 * save does not wait for it: what it offers is taken over when it comes.
 */
async function lookSideBySide(
  looks: readonly Look[],
  look: (look: Look) => Promise<State>,
  signal: CancelSignal | undefined,
): Promise<ReadonlyMap<Look | undefined, State>> {
  const { upstreamSaveMs } = bounds;
  const states = new Map<Look | undefined, State>(looks.map((each) => [each, starting(each.name, upstreamSaveMs)]));
  if (looks.length === 0) return states;
  const waiting = [...looks];
  const over = new AbortController();
  const lookInTurn = async (): Promise<void> => {
    for (let each = waiting.shift(); each && !over.signal.aborted; each = waiting.shift()) {
      const state = await look(each);
      if (!over.signal.aborted) states.set(each, state);
    }
  };
  const all = Promise.all(Array.from({ length: UPSTREAM_STARTS }, lookInTurn));
  all.catch(() => {});
  const stop = (): void => over.abort();
  const timer = setTimeout(stop, upstreamSaveMs);
  signal?.addEventListener("abort", stop);
  try {
    await Promise.race([all, new Promise((resolve) => over.signal.addEventListener("abort", resolve))]);
  } finally {
    stop();
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
  return states;
}

function starting(name: string, ms: number): State {
  const message = `"${name}" has not answered within ${ms / 1000} s: it is still starting, and its contract is taken over when it arrives.`;
  return { kind: "starting", problems: [{ code: "upstream-starting", message, severity: "warning" }] };
}

interface State {
  /** `starting`: what it offers is not known yet. */
  readonly kind: "absent" | "disabled" | "refused" | "served" | "starting";
  readonly catalog?: Catalog;
  readonly prepared?: PreparedServer;
  readonly problems: readonly Problem[];
}

/** Errors that the author cannot mend. */
const ofTheService: ReadonlySet<ErrorCode> = new Set([
  "check_failed",
  "compiler_failed",
  "store_failed",
  "store_uncertain",
  "no_descriptors",
  "too_many_processes",
  "too_many_requests",
  "cancelled",
]);

async function stateOf(
  examiner: Examiner,
  tenant: string,
  name: string,
  listed: DirectoryEntry | undefined,
  store: Store,
): Promise<State> {
  if (!listed) return { kind: "absent", problems: [] };
  if (!listed.enabled) return { kind: "disabled", problems: listed.problems };
  try {
    const port = guestPort(tenant, name, quiet(examiner.host), store, examiner.guestRequests);
    const loaded = await loadCatalog(tenant, name, listed, port, loading(examiner, store));
    return { kind: "served", ...loaded, problems: loaded.catalog.problems };
  } catch (error) {
    if (!(error instanceof BerthError) || ofTheService.has(error.code)) throw error;
    return { kind: "refused", problems: problemsOf(error) };
  }
}

/** A server that is only reviewed serves nobody, so nothing of it is counted. */
function loading(examiner: Examiner, store: Store): LoadDependencies {
  return {
    ...examiner,
    store,
    serverOf: (tenant, name) => examiner.host.server(tenant, name),
    journal: new Journal(),
    isTrial: true,
  };
}

/** A reviewed server changes nothing either. */
function quiet(host: Host): Parameters<typeof guestPort>[2] {
  return { ...host, resourceUpdated: () => true, setVisible: () => Promise.resolve() };
}

function problemsOf(error: BerthError): readonly Problem[] {
  const problems = error.data?.["problems"] as readonly Problem[] | undefined;
  if (problems?.length) return problems;
  return [{ code: error.code.replaceAll("_", "-"), message: error.message, severity: "error" }];
}

async function effectOn(
  server: string,
  was: State,
  would: State,
  told: ToldChanges,
  toldTools: ToldTools,
): Promise<ServerEffect | undefined> {
  const [before, after] = [was.catalog, would.catalog];
  const versions = { ...(before && { before: before.release }), ...(after && { after: after.release }) };
  if (before && after) {
    if (before.release === after.release) return undefined;
    const changes = told.of(await compareInTurns(before.contract, after.contract));
    const newBehaviour = await behaviourOf(before, after);
    const first = told.names(newBehaviour);
    return {
      server,
      outcome: "changed",
      ...versions,
      changes: first.length === newBehaviour.length ? changes : [...changes, furtherBehaviour(newBehaviour, first)],
      newBehaviour: first,
    };
  }
  if (would.kind === "starting") {
    const changes = before ? [unknownChange(server)] : [];
    return { server, outcome: "starting", ...versions, changes, newBehaviour: [] };
  }
  if (after) {
    const tools = await toldTools.of(after.contract.tools);
    return { server, outcome: "added", ...versions, changes: [], tools, newBehaviour: [] };
  }
  if (!before) return undefined;
  if (would.kind === "refused") return { server, outcome: "refused", ...versions, changes: [], newBehaviour: [] };
  return { server, outcome: "removed", ...versions, changes: [removal(server, would)], newBehaviour: [] };
}

/** Tells the first tools of new servers, so many in one review. */
class ToldTools {
  #left = TOOLS_TOLD_MAX;

  async of(tools: Catalog["contract"]["tools"]): Promise<readonly ToldTool[]> {
    const takeTurns = turnTaker();
    const told: ToldTool[] = [];
    for (const tool of tools.slice(0, this.#left)) {
      await takeTurns();
      const description = cutText(tool.description ?? tool.title ?? "", TOLD_UNITS_MAX);
      told.push({ name: tool.name, signature: cutText(signatureOf(tool), TOLD_UNITS_MAX), description });
    }
    this.#left -= told.length;
    return told;
  }
}

const TOOLS_TOLD_MAX = 200;
/** In UTF-16 units. */
const TOLD_UNITS_MAX = 500;

function furtherBehaviour(all: readonly string[], told: readonly string[]): ContractChange {
  const message = `The code of ${all.length - told.length} more tools has changed behind the same contract.`;
  return { subject: "server", name: "", effect: "review", message };
}

function unknownChange(server: string): ContractChange {
  const message = `Nobody knows what "${server}" will offer before it has started, so nobody can tell what breaks.`;
  return { subject: "server", name: "", effect: "breaking", message };
}

function removal(server: string, { kind }: State): ContractChange {
  const message = `The server "${server}" ${kind === "disabled" ? "is disabled" : "is removed"}: every request to it fails.`;
  return { subject: "server", name: "", effect: "breaking", message };
}

/** Tools whose implementation changes under the same contract. */
async function behaviourOf(before: Catalog, after: Catalog): Promise<string[]> {
  const takeTurns = turnTaker();
  const names: string[] = [];
  for (const { name } of before.contract.tools) {
    await takeTurns();
    const [was, is] = [before.identity(name), after.identity(name)];
    if (was && is && was.contract === is.contract && was.implementation !== is.implementation) names.push(name);
  }
  return names;
}

/** One change that an edit makes to what a server is or is given. */
interface PowerChange {
  readonly server: string;
  readonly power: Power;
  /** The field of the entry; absent for a source. */
  readonly field?: string;
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
}

/**
 * Refuses an edit that changes what its author may not change, whatever way it came: all that a server is given is
 * compared, before and after. Nothing has been compiled or started for the edit yet. `remedy` ends the message. Rejects
 * with `forbidden` or `programs_refused`, with the changes as data.
 */
async function checkRights(
  tenant: string,
  names: readonly string[],
  { before, after, remedy = "" }: { before: Directory; after: Directory; remedy?: string | undefined },
  rights: Rights,
): Promise<void> {
  const takeTurns = turnTaker();
  for (const name of names) {
    await takeTurns();
    const [was, would] = [before.servers.get(name), after.servers.get(name)];
    const changes = changesOf(tenant, name, was, would);
    const refused = changes.filter(({ power }) => !rights.has(power, name));
    const [first] = refused;
    if (first) {
      const words = [...new Set(refused.map(({ field }) => `"${field ?? "source"}"`))].join(", ");
      const doing = `the server "${name}" would have another ${words}${remedy}; that`;
      throw rights.refusal(first.power, name, doing, { changes: refused });
    }
    if (changes.some(({ power }) => power === "source")) checkVariables(name, would, rights);
  }
}

function changesOf(
  tenant: string,
  server: string,
  was: DirectoryEntry | undefined,
  would: DirectoryEntry | undefined,
): PowerChange[] {
  const changes: PowerChange[] = [];
  if (was && relaxesConsent(was.entry, would?.entry)) {
    const [before, after] = [was.entry.raw["consent"], would?.entry.raw["consent"]];
    changes.push({ server, power: "approvals", field: "consent", before, after });
  }
  // A deleted server loses all that it was given.
  if (!would) return [...changes, { server, power: "source" }];
  const program = programOf(tenant, would);
  if (program !== undefined && program !== (was && programOf(tenant, was))) {
    changes.push({ server, power: "programs", field: "upstream", after: would.entry.upstream });
  }
  const [before, after] = [was?.entry.raw ?? {}, would.entry.raw];
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (field === "definition" || isSameJson(before[field], after[field])) continue;
    // Only a principal that may do everything sets what a new server may read; any author may let it read nothing.
    if (!was && field === "variables" && isSameJson(after[field], [])) continue;
    const power = powerOf(field, before[field], after[field]);
    const change: PowerChange = { server, field, before: before[field], after: after[field], power };
    changes.push(change);
    // An approval by an entry also needs the right to change the entry.
    if (power === "approvals") changes.push({ ...change, power: "entry" });
  }
  if (was && was.enabled !== would.enabled && was.entry.enabled === would.entry.enabled) {
    changes.push({ server, power: "entry", field: "enabled", before: was.enabled, after: would.enabled });
  }
  if (was?.definition !== would.definition) changes.push({ server, power: "source" });
  return changes;
}

function powerOf(name: string, before: Json | undefined, after: Json | undefined): Power {
  const fields: Readonly<Record<string, Partial<EntryField>>> = entryFields;
  const { right = "entry", strictness, schema } = fields[name] ?? {};
  if (!strictness) return right;
  const rank = (value: Json = null): number =>
    strictness.indexOf(strictness.includes(value) ? value : schema!["default"]!);
  return rank(after) < rank(before) ? "approvals" : right;
}

/** Code reads for its author, so it must not read what the author may not. */
function checkVariables(server: string, would: DirectoryEntry | undefined, rights: Rights): void {
  if (!would || would.entry.variables !== undefined) return;
  if (rights.has("contents", undefined)) return;
  const doing =
    `the code of the server "${server}" may read every variable until its entry in mcps lists the ones it may read ` +
    '("variables": ["…"], or [] for none); to write such code';
  throw rights.refusal("contents", undefined, doing);
}

/** The problems that keep a compiled definition from loading. A definition that the service cannot try now has none. */
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
  const compileOnce = compilingOnce(tenant, dependencies);
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
