import type { Cluster } from "../../cluster/cluster.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Json } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { UPDATES_MAX, type Watchers } from "./watchers.ts";

/** Updates within this interval are sent as one message. */
const GATHERED_MS = 50;
/** Maximum length of the URIs in a message, so that one tenant's updates do not fill the mailbox. */
const LETTER_UNITS = 32 * 1024;
/** A node that listens for more tenants subscribes to all of them. */
const TENANTS_MAX = 1_000;

type Waiting = Map<string, Set<string>>;

/** Forwards resource updates to the nodes that have announced that they listen for the tenant. */
export class NodeUpdates {
  readonly #cluster: ListeningCluster;
  readonly #watchers: Watchers;
  readonly #log: Log;
  /** By tenant and server; a tenant is removed after its messages have been sent. */
  readonly #waiting = new Map<string, Waiting>();
  /** Tenants that are about to get a listener. */
  readonly #expected = new Set<string>();
  #saidTo: ReadonlySet<string> = new Set();
  #saying: Promise<void> | undefined;
  /** Resolves when other nodes have the latest announcement. */
  #said: Promise<void> | undefined;

  constructor(cluster: ListeningCluster, watchers: Watchers, log: Log) {
    this.#cluster = cluster;
    this.#watchers = watchers;
    this.#log = log;
    cluster.on(UPDATED, (body) => this.#hear(body as unknown as UpdatedLetter));
    watchers.onTenant((tenant) => this.#saidTo.has(tenant) || void this.#saySoon());
  }

  /** False when too many updates are pending. */
  updated(tenant: string, server: string, uri: string): boolean {
    if (this.#cluster.others.size === 0 || this.#listeners(tenant).length === 0) return true;
    let waiting = this.#waiting.get(tenant);
    if (!waiting) {
      this.#waiting.set(tenant, (waiting = new Map()));
      setTimeout(() => void this.#tell(tenant, waiting!), GATHERED_MS).unref();
    }
    const uris = waiting.get(server) ?? new Set();
    if (uris.size >= UPDATES_MAX && !uris.has(uri)) return false;
    waiting.set(server, uris.add(uri));
    return true;
  }

  /** Resolves when other nodes forward the tenant's updates to this one; undefined if they already do. */
  toldOf(tenant: string): Promise<void> | undefined {
    if (this.#cluster.others.size === 0) return undefined;
    if (this.#saidTo.has(tenant)) return this.#said;
    this.#expected.add(tenant);
    return this.#saySoon();
  }

  #listeners(tenant: string): string[] {
    const listens = (fact: Json | undefined): boolean =>
      fact === true || (Array.isArray(fact) && fact.includes(tenant));
    return [...this.#cluster.others].filter(([, facts]) => listens(facts[LISTENS])).map(([node]) => node);
  }

  async #tell(tenant: string, waiting: Waiting): Promise<void> {
    try {
      for (let servers; (servers = taken(waiting)).length > 0;) {
        const letter: UpdatedLetter = { tenant, servers };
        for (const node of this.#listeners(tenant)) await this.#cluster.send(node, UPDATED, { ...letter });
      }
    } catch (error) {
      this.#log.warn({ err: error, tenant }, "resource updates could not be sent to other nodes");
    }
    this.#waiting.delete(tenant);
  }

  #hear({ tenant, servers }: UpdatedLetter): void {
    if (!this.#watchers.tenants().includes(tenant)) return void this.#saySoon();
    for (const [server, uris] of servers) for (const uri of uris) this.#watchers.resourceUpdated(tenant, server, uri);
  }

  #saySoon(): Promise<void> {
    this.#saying ??= yieldToCalls().then(() => this.#say());
    return this.#saying;
  }

  async #say(): Promise<void> {
    this.#saying = undefined;
    const expected = [...this.#expected];
    const tenants = [...new Set([...this.#watchers.tenants(), ...expected])];
    this.#saidTo = new Set(tenants);
    const said = this.#cluster.say(LISTENS, tenants.length > TENANTS_MAX ? true : tenants);
    this.#said = said;
    await said;
    if (this.#said === said) this.#said = undefined;
    for (const tenant of expected) this.#expected.delete(tenant);
  }
}

type ListeningCluster = Pick<Cluster, "others" | "on" | "say" | "send">;

/** Node metadata: the tenants that the node listens for, or true for all. */
const LISTENS = "listens";
/** Message type: resources were updated. */
const UPDATED = "updated";

interface UpdatedLetter {
  readonly tenant: string;
  readonly servers: [server: string, uris: string[]][];
}

/** Removes and returns the updates that fit in one message. */
function taken(waiting: Waiting): UpdatedLetter["servers"] {
  const servers: UpdatedLetter["servers"] = [];
  let units = 0;
  for (const [server, uris] of waiting) {
    const own: string[] = [];
    for (const uri of uris) {
      if (units > 0 && units + uri.length > LETTER_UNITS) break;
      units += uri.length;
      own.push(uri);
      uris.delete(uri);
    }
    servers.push([server, own]);
    if (uris.size > 0) break;
    waiting.delete(server);
  }
  return servers;
}
