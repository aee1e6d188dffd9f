import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { TokenBuckets } from "../../lib/token-buckets.ts";
import type { Grant } from "../../secrets/grants.ts";
import { placeOf, type Launch } from "../../upstream/launch.ts";
import { launchedName } from "../../upstream/launcher-uri.ts";
import type { UpstreamHealth } from "../../upstream/supervisor.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Upstream } from "../../upstream/upstream.ts";
import type { Directory } from "../catalog/directory.ts";
import type { RememberedChanges } from "../catalog/remembered.ts";
import { cidOf } from "../catalog/structure-cid.ts";
import { HostedUpstream, type HostedLimits, type OpenUpstream, type UpstreamListener } from "./hosted.ts";

export interface HostingOptions {
  readonly open: (launch: Launch, listener: UpstreamListener, given: GivenToUpstream) => Upstream;
  readonly limitsOf: (tenant: string) => ProcessLimits;
  readonly limits: HostedLimits;
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
  /** The change that waits for a person; absent while the upstream offers what is approved. */
  readonly pending?: PendingChange;
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

type HowReached = Pick<ServerEntry, "upstream" | "secrets">;

interface Known {
  readonly tenant: string;
  readonly server: string;
  readonly uri: string;
  /** The names of the secrets that it is given. */
  readonly secrets: readonly string[];
  readonly hosted: HostedUpstream;
}

function keyOf(tenant: string, server: string, uri: string, secrets: readonly string[]): string {
  return JSON.stringify([tenant, server, uri, secrets]);
}

/**
 * Every upstream that is hosted here, by tenant, name, launcher URI and secrets: an earlier release or a trial may use
 * another URI or other secrets.
 */
export class Hosting {
  readonly #options: HostingOptions;
  readonly #hosted = new Map<string, Known>();
  readonly #places: ProcessPlaces;
  readonly #listeners: HostingListener[] = [];

  constructor(options: HostingOptions) {
    this.#options = options;
    this.#places = new ProcessPlaces(options.limitsOf, (tenant) => this.#upstreamsOf(tenant));
  }

  /** Tells `listener` what happens while upstreams run. */
  listen(listener: HostingListener): void {
    this.#listeners.push(listener);
  }

  of(tenant: string, server: string, launch: Launch, grant: Grant | undefined): HostedUpstream {
    const { uri } = launch;
    const secrets = grant?.names ?? [];
    const key = keyOf(tenant, server, uri, secrets);
    const known = this.#hosted.get(key);
    if (known) return known.hosted;
    const { limits, log } = this.#options;
    const takePlace = "url" in launch ? undefined : () => this.#places.take(tenant);
    const open: OpenUpstream = (launch, listener) =>
      this.#options.open(launch, { ...listener, takePlace }, { tenant, grant });
    const of = { tenant, server, upstream: placeOf(launch) };
    const hosted = new HostedUpstream(launch, open, limits, {
      onChange: () => this.#listeners.forEach((each) => each.onChange(tenant, server)),
      onResourceUpdated: (uri) => this.#listeners.forEach((each) => each.onResourceUpdated(tenant, server, uri)),
      onLost: ({ reason, stderr }) => log.warn({ ...of, reason, stderr }, "an upstream has ended"),
      onError: (error) => log.warn({ ...of, ...saidOf(error) }, "an upstream cannot be started or explored"),
    });
    this.#hosted.set(key, { tenant, server, uri, secrets, hosted });
    return hosted;
  }

  /** Undefined until it is first asked for. */
  find(tenant: string, server: string, { upstream, secrets }: HowReached): HostedUpstream | undefined {
    return upstream === undefined ? undefined : this.#hosted.get(keyOf(tenant, server, upstream, secrets))?.hosted;
  }

  /** The state of an upstream; `idle` until it is first asked for. */
  state(tenant: string, server: string, entry: HowReached): UpstreamState {
    const hosted = this.find(tenant, server, entry);
    const uri = entry.upstream ?? "";
    const pending = hosted?.remembered && pendingOf(hosted.remembered);
    const [, launcher = "", path = uri] = /^mcp\+(\w+):\/\/([^?#]*)/.exec(uri) ?? [];
    return {
      name: hosted?.upstream.launch.name ?? launchedName(launcher, path),
      launcher,
      health: hosted?.upstream.health ?? { state: "idle", starts: 0, requests: 0 },
      stderr: hosted?.upstream.stderr ?? "",
      ...(pending && { pending }),
    };
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
      const isNamed = entry?.upstream === each.uri && String(entry.secrets) === String(each.secrets);
      if (each.tenant !== tenant || isNamed) continue;
      if (each.hosted.upstream.health.requests > 0) continue;
      this.#hosted.delete(key);
      each.hosted.upstream
        .close()
        .catch((error: unknown) => this.#options.log.warn({ err: error }, "an upstream did not end"));
    }
  }

  /** Ends all upstreams of a tenant, even those in use. */
  async closeTenant(tenant: string): Promise<void> {
    const ending = [...this.#hosted].filter(([, each]) => each.tenant === tenant);
    for (const [key] of ending) this.#hosted.delete(key);
    await Promise.all(ending.map(([, { hosted }]) => hosted.upstream.close()));
  }

  /** Makes upstreams that are given this secret start anew, with its new value. */
  secretChanged(tenant: string, name: string): void {
    for (const each of this.#hosted.values()) {
      if (each.tenant === tenant && each.secrets.includes(name)) each.hosted.upstream.renew();
    }
  }

  *#upstreamsOf(tenant: string): Iterable<Upstream> {
    for (const each of this.#hosted.values()) if (each.tenant === tenant) yield each.hosted.upstream;
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#hosted.values(), ({ hosted }) => hosted.upstream.close()));
  }
}

function pendingOf({ approved, observed, changes }: RememberedChanges): PendingChange | undefined {
  return changes.length > 0 ? { contract: cidOf(observed), changes, approved, observed } : undefined;
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
  readonly #taken = new Map<string, number>();

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
      const why = `may start ${processStartsPerMinute} upstream programs a minute, its limit processStartsPerMinute`;
      throw refusal(tenant, why, Math.ceil(waitMs / 1000));
    }
    while (this.#of(tenant) >= upstreamProcesses) {
      const gone = this.#restOne(tenant);
      if (!gone) {
        const why = `has ${upstreamProcesses} upstream programs running, its limit upstreamProcesses, and all are in use`;
        throw refusal(tenant, why, 1);
      }
      await gone;
    }
    this.#taken.set(tenant, this.#of(tenant) + 1);
    return () => {
      const left = this.#of(tenant) - 1;
      if (left > 0) this.#taken.set(tenant, left);
      else this.#taken.delete(tenant);
    };
  }

  #of(tenant: string): number {
    return this.#taken.get(tenant) ?? 0;
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
