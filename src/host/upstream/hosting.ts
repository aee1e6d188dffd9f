import { jsonBlock, type Cid } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import type { Log } from "../../log.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { LinkHealth } from "../../upstream/link.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Directory } from "../directory.ts";
import { HostedUpstream, type OpenUpstream } from "./hosted.ts";
import { driftOf } from "./judge.ts";
import type { Remembered } from "./remembered.ts";
import type { SuspendedLimits } from "./suspended.ts";

export interface HostingOptions {
  readonly open: OpenUpstream;
  readonly limits: SuspendedLimits;
  readonly log: Log;
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

/** Every server of others that is hosted here, by tenant, name and launcher URI: an earlier release may have another. */
export class Hosting {
  readonly #options: HostingOptions;
  readonly #hosted = new Map<string, { tenant: string; server: string; uri: string; hosted: HostedUpstream }>();

  /** Hears what happens while servers run. */
  listener: HostingListener | undefined;

  constructor(options: HostingOptions) {
    this.#options = options;
  }

  of(tenant: string, server: string, launch: Launch): HostedUpstream {
    const { uri } = launch;
    const key = JSON.stringify([tenant, server, uri]);
    const known = this.#hosted.get(key);
    if (known) return known.hosted;
    const { open, limits, log } = this.#options;
    const hosted = new HostedUpstream(launch, open, limits, {
      onChange: () => this.listener?.onChange(tenant, server),
      onResourceUpdated: (resource) => this.listener?.onResourceUpdated(tenant, server, resource),
      onLost: ({ reason, stderr }) => log.warn({ tenant, server, reason, stderr }, "a hosted server has ended"),
      onError: (error) =>
        log.warn({ tenant, server, ...saidOf(error) }, "a hosted server cannot be started or looked at"),
    });
    this.#hosted.set(key, { tenant, server, uri, hosted });
    return hosted;
  }

  /** Undefined while nobody has asked for it. */
  find(tenant: string, server: string, uri: string): HostedUpstream | undefined {
    return this.#hosted.get(JSON.stringify([tenant, server, uri]))?.hosted;
  }

  /** How the server is; `idle` while nobody has asked for it. */
  state(tenant: string, server: string, uri: string): UpstreamState {
    const hosted = this.find(tenant, server, uri);
    const pending = hosted?.remembered && pendingOf(hosted.remembered);
    return {
      name: hosted?.upstream.launch.name ?? uri.replace(/^mcp\+\w+:\/\//, "").replace(/[?#].*$/s, ""),
      launcher: /^mcp\+(\w+):/.exec(uri)?.[1] ?? "",
      health: hosted?.upstream.health ?? { state: "idle", starts: 0, requests: 0 },
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
      if (each.tenant !== tenant || servers.get(each.server)?.entry.upstream === each.uri) continue;
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

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#hosted.values(), ({ hosted }) => hosted.upstream.close()));
  }
}

function pendingOf({ approved, observed }: Remembered): PendingChange | undefined {
  const changes = driftOf(approved, observed);
  return changes.length > 0 ? { contract: jsonBlock(observed).cid, changes, approved, observed } : undefined;
}

/** For the log. The rest of an error's data may show a launcher URI, and what is written out in it. */
function saidOf(error: unknown): { reason: string; stderr?: unknown } {
  const reason = error instanceof Error ? error.message : String(error);
  const stderr = error instanceof UpstreamError ? error.stderr : undefined;
  return { reason, ...(stderr !== undefined && { stderr }) };
}
