import type { Cluster } from "../../cluster/cluster.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Json } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { UPDATES_MAX, type Watchers } from "./watchers.ts";

/** Updates that wait so long for more go out in one letter. */
const GATHERED_MS = 50;
/** The URIs of one letter, in UTF-16 units: a tenant's many updates leave room for what others write. */
const LETTER_UNITS = 32 * 1024;
/** With listeners of more tenants, a node hears of all. */
const TENANTS_MAX = 1_000;

type Waiting = Map<string, Set<string>>;

/**
 * Tells the listeners of other nodes of updated resources: those nodes that say they listen for the tenant, and no
 * others. Where no node listens, an update costs a look-up.
 */
export class NodeUpdates {
  readonly #cluster: ListeningCluster;
  readonly #watchers: Watchers;
  readonly #log: Log;
  /** Updates to tell, by tenant and server; a tenant is there as long as its letters are under way. */
  readonly #waiting = new Map<string, Waiting>();
  /** Tenants for which somebody is about to listen. */
  readonly #expected = new Set<string>();
  #saidTo: ReadonlySet<string> = new Set();
  #saying: Promise<void> | undefined;
  /** Resolves when others know what was said. */
  #said: Promise<void> | undefined;

  constructor(cluster: ListeningCluster, watchers: Watchers, log: Log) {
    this.#cluster = cluster;
    this.#watchers = watchers;
    this.#log = log;
    cluster.on(UPDATED, (body) => this.#hear(body as unknown as UpdatedLetter));
    watchers.onTenant((tenant) => this.#saidTo.has(tenant) || void this.#saySoon());
  }

  /** False when too many already wait. */
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

  /**
   * Undefined, or resolves when other nodes know that this one listens for the tenant: who listens from then on misses
   * no update.
   */
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
      this.#log.warn({ err: error, tenant }, "listeners of other nodes could not be told of updated resources");
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

/** A fact of a node: the tenants for which it listens, or true for all. */
const LISTENS = "listens";
/** Tells a node of updated resources. */
const UPDATED = "updated";

interface UpdatedLetter {
  readonly tenant: string;
  readonly servers: [server: string, uris: string[]][];
}

/** Takes what fits in one letter. */
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
