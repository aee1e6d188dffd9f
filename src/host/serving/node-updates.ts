import type { Cluster } from "../../cluster/cluster.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Json } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { UPDATES_MAX, type Watchers } from "./watchers.ts";

/** Updates within this interval are sent as one message. */
const BATCH_MS = 50;
/** Maximum length of the URIs in a message, so that one tenant's updates do not fill the mailbox. */
const MESSAGE_LENGTH_MAX = 32 * 1024;
/** A node that listens for more tenants subscribes to all of them. */
const TENANTS_MAX = 1_000;

type PendingUpdates = Map<string, Set<string>>;

/** Forwards resource updates to the nodes that have announced that they listen for the tenant. */
export class NodeUpdates {
  readonly #cluster: ListeningCluster;
  readonly #watchers: Watchers;
  readonly #log: Log;
  /** By tenant and server; a tenant is removed after its messages have been sent. */
  readonly #pending = new Map<string, PendingUpdates>();
  /** Tenants that are about to get a listener. */
  readonly #expected = new Set<string>();
  #announcedTenants: ReadonlySet<string> = new Set();
  #scheduled: Promise<void> | undefined;
  /** Resolves when other nodes have the latest announcement. */
  #announcement: Promise<void> | undefined;

  constructor(cluster: ListeningCluster, watchers: Watchers, log: Log) {
    this.#cluster = cluster;
    this.#watchers = watchers;
    this.#log = log;
    cluster.on(UPDATED, (body) => this.#receive(body as unknown as UpdateMessage));
    watchers.onTenant((tenant) => this.#announcedTenants.has(tenant) || void this.#scheduleAnnouncement());
  }

  /** False when too many updates are pending. */
  updated(tenant: string, server: string, uri: string): boolean {
    if (this.#cluster.others.size === 0 || this.#listeningNodes(tenant).length === 0) return true;
    let pending = this.#pending.get(tenant);
    if (!pending) {
      this.#pending.set(tenant, (pending = new Map()));
      setTimeout(() => void this.#send(tenant, pending!), BATCH_MS).unref();
    }
    const uris = pending.get(server) ?? new Set();
    if (uris.size >= UPDATES_MAX && !uris.has(uri)) return false;
    pending.set(server, uris.add(uri));
    return true;
  }

  /** Resolves when other nodes forward the tenant's updates to this one; undefined if they already do. */
  subscribe(tenant: string): Promise<void> | undefined {
    if (this.#cluster.others.size === 0) return undefined;
    if (this.#announcedTenants.has(tenant)) return this.#announcement;
    this.#expected.add(tenant);
    return this.#scheduleAnnouncement();
  }

  #listeningNodes(tenant: string): string[] {
    const isListening = (subscription: Json | undefined): boolean =>
      subscription === true || (Array.isArray(subscription) && subscription.includes(tenant));
    return [...this.#cluster.others].filter(([, metadata]) => isListening(metadata[LISTENS])).map(([node]) => node);
  }

  async #send(tenant: string, pending: PendingUpdates): Promise<void> {
    try {
      for (let servers; (servers = takeBatch(pending)).length > 0;) {
        const message: UpdateMessage = { tenant, servers };
        for (const node of this.#listeningNodes(tenant)) await this.#cluster.send(node, UPDATED, { ...message });
      }
    } catch (error) {
      this.#log.warn({ err: error, tenant }, "resource updates could not be sent to other nodes");
    }
    this.#pending.delete(tenant);
  }

  #receive({ tenant, servers }: UpdateMessage): void {
    if (!this.#watchers.tenants().includes(tenant)) return void this.#scheduleAnnouncement();
    for (const [server, uris] of servers) for (const uri of uris) this.#watchers.resourceUpdated(tenant, server, uri);
  }

  #scheduleAnnouncement(): Promise<void> {
    this.#scheduled ??= yieldToCalls().then(() => this.#announce());
    return this.#scheduled;
  }

  async #announce(): Promise<void> {
    this.#scheduled = undefined;
    const expected = [...this.#expected];
    const tenants = [...new Set([...this.#watchers.tenants(), ...expected])];
    this.#announcedTenants = new Set(tenants);
    const announcement = this.#cluster.say(LISTENS, tenants.length > TENANTS_MAX ? true : tenants);
    this.#announcement = announcement;
    await announcement;
    if (this.#announcement === announcement) this.#announcement = undefined;
    for (const tenant of expected) this.#expected.delete(tenant);
  }
}

type ListeningCluster = Pick<Cluster, "others" | "on" | "say" | "send">;

/** Node metadata: the tenants that the node listens for, or true for all. */
const LISTENS = "listens";
/** Message type: resources were updated. */
const UPDATED = "updated";

interface UpdateMessage {
  readonly tenant: string;
  readonly servers: [server: string, uris: string[]][];
}

/** Removes and returns the updates that fit in one message. */
function takeBatch(pending: PendingUpdates): UpdateMessage["servers"] {
  const servers: UpdateMessage["servers"] = [];
  let length = 0;
  for (const [server, uris] of pending) {
    const own: string[] = [];
    for (const uri of uris) {
      if (length > 0 && length + uri.length > MESSAGE_LENGTH_MAX) break;
      length += uri.length;
      own.push(uri);
      uris.delete(uri);
    }
    servers.push([server, own]);
    if (uris.size > 0) break;
    pending.delete(server);
  }
  return servers;
}
