import type { Cid } from "../../lib/cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import type { Log } from "../../lib/log.ts";
import type { Grant } from "../../secrets/grants.ts";
import { placeOf, type Launch } from "../../upstream/launch.ts";
import { launchedName } from "../../upstream/launcher.ts";
import type { LinkHealth } from "../../upstream/link-health.ts";
import type { Upstream } from "../../upstream/upstream.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { ServerEntry } from "../config/entry.ts";
import type { Directory } from "../directory.ts";
import { HostedUpstream, type HostedLimits, type OpenUpstream, type UpstreamListener } from "./hosted.ts";
import { ProcessPlaces, type ProcessLimits } from "./process-places.ts";
import type { RememberedChanges } from "./remembered.ts";
import { cidOf } from "./structure-cid.ts";

export interface HostingOptions {
  readonly open: (launch: Launch, listener: UpstreamListener, given: GivenToUpstream) => Upstream;
  readonly limitsOf: (tenant: string) => ProcessLimits;
  readonly limits: HostedLimits;
  readonly log: Log;
}

/** Whose a hosted server is, and its secrets; undefined where it has none. */
export interface GivenToUpstream {
  readonly tenant: string;
  readonly grant: Grant | undefined;
}

export interface HostingListener {
  /** The server offers something else now. */
  onChange(tenant: string, server: string): void;
  onResourceUpdated(tenant: string, server: string, uri: string): void;
}

export interface UpstreamState {
  /** Of the launcher, for people; never holds a secret. */
  readonly name: string;
  /** `npx`, `uvx`, `node`, `python`, `http`, `https`. */
  readonly launcher: string;
  readonly health: LinkHealth;
  /** The end of what it wrote before it failed: for who may change its entry, since nobody knows what stands there. */
  readonly stderr: string;
  /** What waits for a person; absent while it offers what is approved. */
  readonly pending?: PendingChange;
}

export interface PendingChange {
  /** CID of what it offers, which is what a person approves. */
  readonly contract: Cid;
  readonly changes: readonly ContractChange[];
  readonly approved: Contract;
  readonly observed: Contract;
}

export interface HostingStats {
  /** How many there are by how they are. */
  readonly states: Readonly<Record<LinkHealth["state"], number>>;
  readonly starts: number;
  /** Of how many something waits for a person. */
  readonly heldBack: number;
}

type HowReached = Pick<ServerEntry, "upstream" | "secrets">;

interface Known {
  readonly tenant: string;
  readonly server: string;
  readonly uri: string;
  /** The names of those that it is given. */
  readonly secrets: readonly string[];
  readonly hosted: HostedUpstream;
}

function keyOf(tenant: string, server: string, uri: string, secrets: readonly string[]): string {
  return JSON.stringify([tenant, server, uri, secrets]);
}

/**
 * Every server of others that is hosted here, by tenant, name, launcher URI and secrets: an earlier release, or one that
 * somebody only tries, may have others.
 */
export class Hosting {
  readonly #options: HostingOptions;
  readonly #hosted = new Map<string, Known>();
  readonly #places: ProcessPlaces;

  /** Hears what happens while servers run. */
  listener: HostingListener | undefined;

  constructor(options: HostingOptions) {
    this.#options = options;
    this.#places = new ProcessPlaces(options.limitsOf, (tenant) => this.#upstreamsOf(tenant));
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
      onChange: () => this.listener?.onChange(tenant, server),
      onResourceUpdated: (resource) => this.listener?.onResourceUpdated(tenant, server, resource),
      onLost: ({ reason, stderr }) => log.warn({ ...of, reason, stderr }, "a hosted server has ended"),
      onError: (error) => log.warn({ ...of, ...saidOf(error) }, "a hosted server cannot be started or looked at"),
    });
    this.#hosted.set(key, { tenant, server, uri, secrets, hosted });
    return hosted;
  }

  /** Undefined while nobody has asked for it. */
  find(tenant: string, server: string, { upstream, secrets }: HowReached): HostedUpstream | undefined {
    return upstream === undefined ? undefined : this.#hosted.get(keyOf(tenant, server, upstream, secrets))?.hosted;
  }

  /** How the server is; `idle` while nobody has asked for it. */
  state(tenant: string, server: string, entry: HowReached): UpstreamState {
    const hosted = this.find(tenant, server, entry);
    const uri = entry.upstream ?? "";
    const pending = hosted?.remembered && pendingOf(hosted.remembered);
    const [, launcher = "", path = uri] = /^mcp\+(\w+):\/\/([^?#]*)/.exec(uri) ?? [];
    return {
      name: hosted?.upstream.launch.name ?? launchedName(launcher, path),
      launcher,
      health: hosted?.upstream.health ?? { state: "idle", starts: 0, requests: 0 },
      stderr: hosted?.stderr ?? "",
      ...(pending && { pending }),
    };
  }

  /** What is going on, for metrics. */
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

  /** Ends what the tenant's configuration does not name any more, unless somebody uses it still. */
  keepOnly(tenant: string, { servers }: Directory): void {
    for (const [key, each] of this.#hosted) {
      const entry = servers.get(each.server)?.entry;
      const isNamed = entry?.upstream === each.uri && String(entry.secrets) === String(each.secrets);
      if (each.tenant !== tenant || isNamed) continue;
      if (each.hosted.upstream.health.requests > 0) continue;
      this.#hosted.delete(key);
      each.hosted.upstream
        .close()
        .catch((error: unknown) => this.#options.log.warn({ err: error }, "a hosted server did not end"));
    }
  }

  /** Ends all of a tenant's, whoever uses them. */
  async closeTenant(tenant: string): Promise<void> {
    const ending = [...this.#hosted].filter(([, each]) => each.tenant === tenant);
    for (const [key] of ending) this.#hosted.delete(key);
    await Promise.all(ending.map(([, { hosted }]) => hosted.upstream.close()));
  }

  /** Has what is given this secret start anew, with what it is now. */
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

/** For the log. The rest of an error's data may show a launcher URI, and what is written out in it. */
function saidOf(error: unknown): { reason: string; stderr?: unknown } {
  const reason = error instanceof Error ? error.message : String(error);
  const stderr = error instanceof UpstreamError ? error.stderr : undefined;
  return { reason, ...(stderr !== undefined && { stderr }) };
}
