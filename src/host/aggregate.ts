import { composeServers } from "./aggregate-catalog.ts";
import type { Catalog, Contract } from "./catalog.ts";
import type { Host } from "./host.ts";
import type { ChangeListener } from "./watchers.ts";

/**
 * One server that offers what all of a tenant's servers offer (S10). It owns names only: a call goes to the server's
 * own tool, of whatever release that server then has. No server can have this name.
 */
export const ALL_SERVERS = "";

/** A host that knows the server of all servers beside those of `host`. */
export function withAllServers(host: Host): Host {
  const tenants = new Map<string, AllServers>();
  const all = (tenant: string): AllServers => {
    let known = tenants.get(tenant);
    if (!known) tenants.set(tenant, (known = new AllServers(tenant, host)));
    return known;
  };
  return {
    ...host,
    server: (tenant, name) => (name === ALL_SERVERS ? all(tenant).catalog() : host.server(tenant, name)),
    watch: (tenant, name, listener) =>
      name === ALL_SERVERS ? all(tenant).watch(listener) : host.watch(tenant, name, listener),
    async reload(tenant, foreseen) {
      await host.reload(tenant, foreseen);
      await tenants.get(tenant)?.changed();
    },
    rest(tenant) {
      if (tenants.get(tenant)?.rest() === false || !host.rest(tenant)) return false;
      tenants.delete(tenant);
      return true;
    },
    async close(tenant) {
      tenants.get(tenant)?.close();
      tenants.delete(tenant);
      await host.close(tenant);
    },
  };
}

/** One tenant's whole, composed when it is asked for, and anew when a server has changed, come or gone. */
class AllServers {
  readonly #tenant: string;
  readonly #host: Host;
  readonly #listeners = new Set<ChangeListener>();
  readonly #coming = new Set<string>();
  readonly #unwatch = new Map<string, () => void>();
  /** Counts what made a composed catalog stale. */
  #version = 0;
  #current: Catalog | undefined;
  #composing: Promise<Catalog> | undefined;
  /** What the listeners know. */
  #told: Catalog | undefined;
  #telling: Promise<void> = Promise.resolve();

  constructor(tenant: string, host: Host) {
    this.#tenant = tenant;
    this.#host = host;
  }

  catalog(): Catalog | Promise<Catalog> {
    return this.#current ?? (this.#composing ??= this.#compose());
  }

  watch(listener: ChangeListener): () => void {
    const own: ChangeListener = (change) => listener(change);
    this.#listeners.add(own);
    void this.#tell();
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.#told = undefined;
    };
  }

  /** Resolves when the listeners have been told what is different now. */
  changed(): Promise<void> {
    this.#version++;
    this.#current = undefined;
    this.#composing = undefined;
    return this.#tell();
  }

  /** Lets go of what is kept for the next who asks; false, and nothing, while somebody listens. */
  rest(): boolean {
    if (this.#listeners.size > 0) return false;
    this.#version++;
    this.#current = undefined;
    this.#composing = undefined;
    this.#watchAll([]);
    return true;
  }

  close(): void {
    this.#listeners.clear();
    this.rest();
  }

  async #compose(): Promise<Catalog> {
    const version = this.#version;
    const servers = await this.#host.list(this.#tenant);
    const unstarted = servers.filter(({ state }) => state === "unstarted" || state === "starting");
    this.#watchAll(servers.flatMap((server) => (unstarted.includes(server) ? [] : [server.name])));
    for (const { name } of unstarted) this.#bringIn(name);
    const catalog = composeServers(this.#tenant, servers, this.#host);
    // What was composed of servers that have changed meanwhile serves whoever waits for it, and nobody else.
    if (this.#version === version) {
      this.#current = catalog;
      this.#composing = undefined;
    }
    return catalog;
  }

  /** A server of others that was never started; the whole is there meanwhile, and changes when it has come. */
  #bringIn(name: string): void {
    if (this.#coming.has(name)) return;
    this.#coming.add(name);
    Promise.resolve()
      .then(() => this.#host.server(this.#tenant, name))
      .finally(() => this.#coming.delete(name))
      .then(
        () => this.changed(),
        () => {},
      );
  }

  #watchAll(names: readonly string[]): void {
    for (const [name, unwatch] of this.#unwatch) {
      if (names.includes(name)) continue;
      unwatch();
      this.#unwatch.delete(name);
    }
    for (const name of names) {
      if (this.#unwatch.has(name)) continue;
      const onChange: ChangeListener = (change) => {
        if (change.kind !== "resource") void this.changed();
        else for (const listener of this.#listeners) listener(change);
      };
      this.#unwatch.set(name, this.#host.watch(this.#tenant, name, onChange));
    }
  }

  #tell(): Promise<void> {
    if (this.#listeners.size === 0) return Promise.resolve();
    this.#telling = this.#tellAfter(this.#telling);
    return this.#telling;
  }

  async #tellAfter(telling: Promise<void>): Promise<void> {
    await telling;
    const [before, now] = [this.#told, await this.catalog()];
    this.#told = now;
    if (!before || before === now) return;
    for (const kind of changedLists(before.contract, now.contract)) {
      for (const listener of this.#listeners) listener({ kind });
    }
  }
}

function changedLists(before: Contract, now: Contract): ("tools" | "resources" | "prompts")[] {
  const differ = (list: "tools" | "resources" | "resourceTemplates" | "prompts"): boolean =>
    JSON.stringify(before[list]) !== JSON.stringify(now[list]);
  return [
    ...(differ("tools") ? (["tools"] as const) : []),
    ...(differ("resources") || differ("resourceTemplates") ? (["resources"] as const) : []),
    ...(differ("prompts") ? (["prompts"] as const) : []),
  ];
}
