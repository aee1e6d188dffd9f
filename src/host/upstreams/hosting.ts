import { hash } from "node:crypto";
import type { Cluster } from "../../cluster/cluster.ts";
import { CallNotAccepted, type NodeCalls, type ReceivedCall } from "../../cluster/node-calls.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import type { EntryRuns, ServerEntry } from "../../entry/entry.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { listedProblems } from "../../lib/problem.ts";
import { TenantCounts } from "../../lib/tenant-counts.ts";
import { TokenBuckets } from "../../lib/token-buckets.ts";
import { type Limits, tenantSetting } from "../../limits/limits.ts";
import type { Grant } from "../../secrets/grants.ts";
import type { UpstreamHealth } from "../../upstream/calls/supervisor.ts";
import { launchLocation, type Launch } from "../../upstream/launch/launch.ts";
import { launchedName } from "../../upstream/launch/launcher-uri.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { Upstream } from "../../upstream/upstream.ts";
import type { Directory } from "../directory/directory.ts";
import { cidOf } from "../offers/contract-cids.ts";
import { packEnd, packError, packObserved, unpackRound } from "./forwarded.ts";
import { HostedUpstream, type HostedNodes, type OpenUpstream, type UpstreamListener } from "./hosted.ts";
import { Elsewhere, UPSTREAMS, type UpstreamAsked, type UpstreamName, type UpstreamSaid } from "./other-nodes.ts";
import { Owner, type LeaseNodes } from "./owner.ts";
import type { RememberedChanges } from "./remembered.ts";
import type { SuspendedLimits } from "./upstream-call.ts";

export interface HostingOptions {
  /** The other processes on the store; without them every upstream runs here. */
  readonly nodes?: {
    readonly cluster: Pick<Cluster, "id" | "others" | "on" | "tell" | "onLapse"> & LeaseNodes;
    readonly calls: Pick<NodeCalls, "call" | "on">;
  };
  readonly open: (launch: Launch, listener: UpstreamListener, given: GivenToUpstream) => Upstream;
  readonly limitsOf: (tenant: string) => ProcessLimits;
  readonly limits: SuspendedLimits & Pick<Limits, "upstreamStartMs" | "nodeLeaseMs">;
  readonly log: Log;
}

/** The tenant of a hosted upstream, and its secrets; undefined where it has none. */
export interface GivenToUpstream {
  readonly tenant: string;
  readonly grant: Grant | undefined;
}

export interface HostingListener {
  /** The upstream offers something else now. */
  onChange(tenant: string, server: string): void;
  onResourceUpdated(tenant: string, server: string, uri: string): void;
}

export interface UpstreamState {
  /** The launcher's name for people; never holds a secret. */
  readonly name: string;
  /** `npx`, `uvx`, `node`, `python`, `http`, `https`. */
  readonly launcher: string;
  readonly health: UpstreamHealth;
  /** The end of its stderr before it failed, only for principals that may change its entry: it may hold anything. */
  readonly stderr: string;
  /** Where it runs, if there are others than this one. */
  readonly node?: { readonly id: string; readonly isThis: boolean };
  /** The change that waits for a person; absent while the upstream offers what is approved. */
  readonly pending?: PendingChange;
  /** The changes that its entry's policy has taken over since a person last approved; absent where it has not. */
  readonly autoApproved?: AutoApprovedChange;
}

export interface AutoApprovedChange {
  /** CID of the contract that it offers. */
  readonly contract: Cid;
  readonly changes: readonly ContractChange[];
  readonly reviewed: Contract;
  readonly approved: Contract;
}

export interface PendingChange {
  /** CID of the contract that it offers, which a person approves. */
  readonly contract: Cid;
  readonly changes: readonly ContractChange[];
  readonly approved: Contract;
  readonly observed: Contract;
}

export interface HostingStats {
  /** The number of upstreams in each state. */
  readonly states: Readonly<Record<UpstreamHealth["state"], number>>;
  readonly starts: number;
  /** The number of upstreams with changes that wait for a person. */
  readonly heldBack: number;
}

type HowReached = Pick<ServerEntry, "upstream" | "secrets" | "runs">;

interface Known extends UpstreamName {
  readonly uri: string;
  /** The names of the secrets that it is given. */
  readonly secrets: readonly string[];
  readonly grant: Grant | undefined;
  readonly runs: EntryRuns;
  readonly hosted: HostedUpstream;
}

function keyOf(tenant: string, server: string, uri: string, secrets: readonly string[], runs: EntryRuns): string {
  return JSON.stringify([tenant, server, uri, secrets, runs]);
}

/** By which all nodes know it: the URI may hold what only its entry may show. */
function nameOf({ tenant, server, digest }: UpstreamName): string {
  return `upstream/${tenant}/${server}/${digest}`;
}

/**
 * Every upstream that is hosted here, by tenant, name, launcher URI and secrets: an earlier release or a trial may use
 * another URI or other secrets. One that runs once for all nodes runs on the node that has its lease, and that node
 * answers the others' calls.
 */
export class Hosting {
  readonly #options: HostingOptions;
  readonly #hosted = new Map<string, Known>();
  readonly #named = new Map<string, Known>();
  /** Those whose process is about to be gone, by name. */
  readonly #ending = new Map<string, Promise<unknown>>();
  readonly #places: ProcessPlaces;
  /** The calls in progress on other nodes, by tenant. */
  readonly #forwarded = new TenantCounts();
  readonly #listeners: HostingListener[] = [];

  constructor(options: HostingOptions) {
    this.#options = options;
    this.#places = new ProcessPlaces(options.limitsOf, (tenant) => this.#upstreamsOf(tenant));
  }

  /** Tells `listener` what happens while upstreams run. */
  listen(listener: HostingListener): void {
    this.#listeners.push(listener);
  }

  /** Answers other nodes from now on; `admit` is to have served the tenant of a call. */
  answerNodes(admit: (tenant: string) => Promise<void> | undefined): void {
    const { nodes } = this.#options;
    if (!nodes) return;
    const { cluster, calls } = nodes;
    calls.on(UPSTREAMS, async (body, call) => {
      const asked = body as UpstreamAsked;
      try {
        await admit(asked.tenant);
        return await this.#answer(asked, call);
      } catch (error) {
        const packed = packError(error);
        if (!packed) throw error;
        return { ended: { error: packed } };
      }
    });
    cluster.on(OFFERS, (letter) => {
      const { offers, ...name } = letter as unknown as UpstreamName & { offers: string };
      this.#named.get(nameOf(name))?.hosted.followOffers(offers);
    });
    cluster.onLapse(() => {
      for (const { hosted } of this.#hosted.values()) {
        void hosted.nodes?.owner?.verify();
        if (hosted.runsElsewhere) hosted.followOffers();
      }
    });
  }

  of(
    tenant: string,
    server: string,
    launch: Launch,
    grant: Grant | undefined,
    runs: EntryRuns = "everywhere",
  ): HostedUpstream {
    const { uri } = launch;
    const secrets = grant?.names ?? [];
    const key = keyOf(tenant, server, uri, secrets, runs);
    const known = this.#hosted.get(key);
    if (known) return known.hosted;
    const { limits, log } = this.#options;
    const takePlace = "url" in launch ? undefined : () => this.#places.take(tenant);
    const open: OpenUpstream = (launch, listener) =>
      this.#options.open(launch, { ...listener, takePlace }, { tenant, grant });
    const of = { tenant, server, upstream: launchLocation(launch) };
    const digest = hash("sha256", JSON.stringify([uri, secrets, runs]), "base64url");
    const name: UpstreamName = { tenant, server, digest };
    const hosted = new HostedUpstream(
      launch,
      open,
      limits,
      {
        onChange: () => {
          this.#listeners.forEach((each) => each.onChange(tenant, server));
          this.#tellOffers(made);
        },
        onProblems: (problems) => {
          const messages = listedProblems(problems).map(({ message }) => message);
          log.warn({ ...of, problems: messages }, "an upstream is served with problems");
        },
        onResourceUpdated: (uri) => this.#listeners.forEach((each) => each.onResourceUpdated(tenant, server, uri)),
        onLost: ({ reason, stderr }) => log.warn({ ...of, reason, stderr }, "an upstream has ended"),
        onError: (error) => log.warn({ ...of, ...saidOf(error) }, "an upstream cannot be started or explored"),
      },
      (hosted) => this.#nodesOf(name, runs, hosted),
    );
    const made: Known = { ...name, uri, secrets, grant, runs, hosted };
    this.#hosted.set(key, made);
    this.#named.set(nameOf(name), made);
    return hosted;
  }

  /** Undefined until it is first asked for. */
  find(tenant: string, server: string, { upstream, secrets, runs }: HowReached): HostedUpstream | undefined {
    if (upstream === undefined || runs === undefined) return undefined;
    return this.#hosted.get(keyOf(tenant, server, upstream, secrets, runs))?.hosted;
  }

  /** The state of an upstream as this node knows it; `idle` until it is first asked for. */
  state(tenant: string, server: string, entry: HowReached): UpstreamState {
    const hosted = this.find(tenant, server, entry);
    const uri = entry.upstream ?? "";
    const pending = hosted?.remembered && pendingOf(hosted.remembered);
    const autoApproved = hosted?.remembered && autoApprovedOf(hosted.remembered);
    const [, launcher = "", path = uri] = /^mcp\+(\w+):\/\/([^?#]*)/.exec(uri) ?? [];
    return {
      name: hosted?.upstream.launch.name ?? launchedName(launcher, path),
      launcher,
      health: hosted?.upstream.health ?? { state: "idle", starts: 0, requests: 0 },
      stderr: hosted?.upstream.stderr ?? "",
      ...(pending && { pending }),
      ...(autoApproved && { autoApproved }),
    };
  }

  /** The state of an upstream on the node that runs it, which is asked where it is another one. */
  async stateNow(tenant: string, server: string, entry: HowReached): Promise<UpstreamState> {
    const here = this.state(tenant, server, entry);
    const { cluster } = this.#options.nodes ?? {};
    const nodes = this.find(tenant, server, entry)?.nodes;
    if (!cluster || cluster.others.size === 0 || !nodes?.owner) return here;
    const id = await nodes.owner.look();
    if (id === undefined) return here;
    const node = { id, isThis: id === cluster.id };
    if (node.isThis) return { ...here, node };
    const there = await nodes.elsewhere.state(id).catch(() => undefined);
    return { ...here, ...there, node };
  }

  /** Counts upstreams for metrics. */
  stats(): HostingStats {
    const states = { idle: 0, starting: 0, running: 0, failed: 0 };
    let [starts, heldBack] = [0, 0];
    for (const { hosted } of this.#hosted.values()) {
      const { health } = hosted.upstream;
      states[health.state] += 1;
      starts += health.starts;
      if (hosted.remembered && pendingOf(hosted.remembered)) heldBack += 1;
    }
    return { states, starts, heldBack };
  }

  /** Ends upstreams that the tenant's configuration no longer names, unless they are still in use. */
  keepOnly(tenant: string, { servers }: Directory): void {
    for (const [key, each] of this.#hosted) {
      const entry = servers.get(each.server)?.entry;
      const isSame = entry?.upstream === each.uri && entry.runs === each.runs;
      if (each.tenant !== tenant || (isSame && String(entry.secrets) === String(each.secrets))) continue;
      if (each.hosted.upstream.health.requests > 0) continue;
      this.#end(key, each).catch((error: unknown) => this.#options.log.warn({ err: error }, "an upstream did not end"));
    }
  }

  /** Ends all upstreams of a tenant, even those in use. */
  async closeTenant(tenant: string): Promise<void> {
    const ending = [...this.#hosted].filter(([, each]) => each.tenant === tenant);
    await Promise.all(ending.map(([key, each]) => this.#end(key, each)));
  }

  /** Leaves all upstreams that run once to other nodes, each as soon as nothing of it is under way. */
  async leave(): Promise<void> {
    if (!this.#options.nodes || this.#options.nodes.cluster.others.size === 0) return;
    await Promise.all(Array.from(this.#hosted.values(), ({ hosted }) => hosted.leave()));
  }

  /** Makes upstreams that are given this secret start anew, with its new value. */
  secretChanged(tenant: string, name: string): void {
    for (const each of this.#hosted.values()) {
      if (each.tenant !== tenant || !each.secrets.includes(name)) continue;
      each.grant?.forget(name);
      each.hosted.upstream.renew();
    }
  }

  *#upstreamsOf(tenant: string): Iterable<Upstream> {
    for (const each of this.#hosted.values()) if (each.tenant === tenant) yield each.hosted.upstream;
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#hosted, ([key, each]) => this.#end(key, each)));
    await Promise.all(this.#ending.values());
  }

  /** Another upstream of this name waits until it is gone. */
  async #end(key: string, known: Known): Promise<void> {
    const name = nameOf(known);
    this.#hosted.delete(key);
    if (this.#named.get(name) === known) this.#named.delete(name);
    const ending = Promise.all([this.#ending.get(name), known.hosted.close()]);
    this.#ending.set(name, ending);
    try {
      await ending;
    } finally {
      if (this.#ending.get(name) === ending) this.#ending.delete(name);
    }
  }

  #nodesOf(name: UpstreamName, runs: EntryRuns, hosted: HostedUpstream): HostedNodes | undefined {
    const { nodes, limits, log } = this.#options;
    if (!nodes) return undefined;
    const { cluster, calls } = nodes;
    const lost = (): void => {
      log.warn({ tenant: name.tenant, server: name.server }, "another node may run an upstream of this one by now");
      const cutting = hosted.upstream.cut("is left to another node of this Berth");
      cutting.catch((error: unknown) => log.warn({ err: error }, "an upstream did not end"));
    };
    const lease = nameOf(name);
    return {
      id: cluster.id,
      owner: runs === "once" ? new Owner(lease, cluster, lost, this.#ending.get(lease)) : undefined,
      elsewhere: new Elsewhere(calls, name, limits, this.#forwarded, (offers) => hosted.followOffers(offers)),
      takeOverMs: limits.nodeLeaseMs,
      isThere: (node) => cluster.others.has(node),
    };
  }

  /** Does what another node asks, here or not at all. */
  async #answer(asked: UpstreamAsked, call: ReceivedCall): Promise<UpstreamSaid> {
    const known = this.#named.get(nameOf(asked));
    if (!known) throw new CallNotAccepted("it does not run this upstream");
    const { hosted } = known;
    const { owner } = hosted.nodes!;
    const contract = (): string | undefined => hosted.observed && cidOf(hosted.observed.contract);
    if (asked.ask === "state") return { state: { health: hosted.upstream.health, stderr: hosted.upstream.stderr } };
    if (asked.ask === "begin" || asked.ask === "offers") {
      if (!(await owner?.has(asked.fence))) throw new CallNotAccepted("it does not run this upstream");
    }
    try {
      if (asked.ask === "offers") {
        await hosted.upstream.start();
        return { observed: packObserved(hosted.observed!) };
      }
      const { request, options } = unpackRound(asked.round, (part) => call.part(part));
      const round = { ...options, signal: call.signal };
      const running = asked.ask === "resume" ? hosted.suspended.resume(round) : hosted.suspended.begin(request, round);
      if (!running) return {};
      return { ended: { end: packEnd(await running) }, offers: contract() };
    } catch (error) {
      const packed = packError(error);
      if (!packed) throw error;
      return { ended: { error: packed }, offers: contract() };
    }
  }

  /** Reports what the upstream offers to the nodes that do not run it, even while the lease may be another node's. */
  #tellOffers({ tenant, server, digest, runs, hosted }: Known): void {
    const { cluster } = this.#options.nodes ?? {};
    if (runs !== "once" || hosted.runsElsewhere || !hosted.observed) return;
    cluster?.tell(OFFERS, { tenant, server, digest, offers: cidOf(hosted.observed.contract) });
  }
}

function pendingOf({ approved, observed, changes }: RememberedChanges): PendingChange | undefined {
  return changes.length > 0 ? { contract: cidOf(observed), changes, approved, observed } : undefined;
}

function autoApprovedOf({
  approved,
  observed,
  reviewed,
  autoApproved,
}: RememberedChanges): AutoApprovedChange | undefined {
  if (!reviewed || autoApproved.length === 0) return undefined;
  return { contract: cidOf(observed), changes: autoApproved, reviewed, approved };
}

/** For the log: the rest of an error's data may show a launcher URI with secrets written out in it. */
function saidOf(error: unknown): { reason: string; stderr?: unknown } {
  const reason = error instanceof Error ? error.message : String(error);
  const stderr = error instanceof UpstreamError ? error.stderr : undefined;
  return { reason, ...(stderr !== undefined && { stderr }) };
}

/** The limits on a tenant's upstream processes. */
interface ProcessLimits {
  readonly upstreamProcesses: number;
  /** 0 means no limit. */
  readonly processStartsPerMinute: number;
}

/** An upstream that may run as a process, which can be ended while it is not in use. */
interface Restable {
  /** When it was last used. */
  readonly usedAt: number;
  /** Ends the process and resolves when it is gone; undefined when it does not run or is in use. */
  rest(): Promise<unknown> | undefined;
}

/**
 * Counts upstream processes by tenant. A tenant at its limit gets room by ending its own least recently used process
 * that is not in use, and never at the cost of another tenant.
 */
export class ProcessPlaces {
  readonly #limitsOf: (tenant: string) => ProcessLimits;
  readonly #buckets: TokenBuckets;
  readonly #runningOf: (tenant: string) => Iterable<Restable>;
  readonly #taken = new TenantCounts();

  constructor(limitsOf: (tenant: string) => ProcessLimits, runningOf: (tenant: string) => Iterable<Restable>) {
    this.#limitsOf = limitsOf;
    this.#buckets = new TokenBuckets((tenant) => {
      const { processStartsPerMinute, upstreamProcesses } = limitsOf(tenant);
      return { perMinute: processStartsPerMinute, burst: Math.max(upstreamProcesses, BURST_MIN) };
    });
    this.#runningOf = runningOf;
  }

  /**
   * Resolves with a function to call once when the process has ended. Rejects with `too_many_processes` while all are
   * in use, and when too many were started just now.
   */
  async take(tenant: string): Promise<() => void> {
    const { upstreamProcesses, processStartsPerMinute } = this.#limitsOf(tenant);
    const waitMs = this.#buckets.take(tenant, performance.now());
    if (waitMs > 0) {
      const why = `may start ${processStartsPerMinute} upstream programs a minute (${tenantSetting("processStartsPerMinute")})`;
      throw refusal(tenant, why, Math.ceil(waitMs / 1000));
    }
    while (this.#taken.of(tenant) >= upstreamProcesses) {
      const gone = this.#restOne(tenant);
      if (!gone) {
        const why = `has ${upstreamProcesses} upstream programs running, and all are in use (${tenantSetting("upstreamProcesses")})`;
        throw refusal(tenant, why, 1);
      }
      await gone;
    }
    this.#taken.add(tenant, 1);
    return () => this.#taken.add(tenant, -1);
  }

  #restOne(tenant: string): Promise<unknown> | undefined {
    const oldestFirst = [...this.#runningOf(tenant)].toSorted((left, right) => left.usedAt - right.usedAt);
    for (const each of oldestFirst) {
      const gone = each.rest();
      if (gone) return gone;
    }
    return undefined;
  }
}

function refusal(tenant: string, why: string, retryAfterSeconds: number): BerthError {
  const detail = `the tenant "${tenant}" ${why}; try again in ${retryAfterSeconds} s`;
  return new BerthError("too_many_processes", detail, { data: { retryAfterSeconds } });
}

/** A tenant with few places may still switch between upstreams. */
const BURST_MIN = 10;

/** The topic of letters about what an upstream offers now. */
const OFFERS = "upstream offers";
