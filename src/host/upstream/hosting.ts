import type { Cid } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import { compareContracts } from "../../contract/compare.ts";
import type { Log } from "../../log.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { LinkHealth } from "../../upstream/link.ts";
import type { Directory } from "../directory.ts";
import { HostedUpstream, type OpenUpstream } from "./hosted.ts";
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
  readonly health: LinkHealth;
  /** The CID of what it offers at present, as far as that is known. */
  readonly contract?: Cid;
  /** How that is different from what is approved. */
  readonly changes: readonly ContractChange[];
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
      onError: (error) => log.warn({ err: error, tenant, server }, "a hosted server cannot be looked at"),
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
    const { approved, observed, observedCid } = hosted ?? {};
    return {
      name: hosted?.upstream.launch.name ?? uri,
      health: hosted?.upstream.health ?? { state: "idle", starts: 0, requests: 0 },
      ...(observedCid !== undefined && { contract: observedCid }),
      changes: approved && observed ? compareContracts(approved, observed.contract) : [],
    };
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
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#hosted.values(), ({ hosted }) => hosted.upstream.close()));
  }
}
