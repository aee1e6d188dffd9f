import type { Principal } from "../../access/principal.ts";
import { clock } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { mapYielding, createYielder } from "../../lib/event-loop.ts";
import { FairSemaphore } from "../../lib/fair-semaphore.ts";
import type { Log } from "../../lib/log.ts";
import { listedProblems, shortProblems, type Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Directory, DirectoryEntry } from "../directory/directory.ts";
import type { ChangeListener, Host } from "../host.ts";
import type { Catalog, Contract, ServerChange } from "../offers/catalog.ts";
import { composeServers, NOT_IN_ALL, createPart, withoutOffer, type Part } from "./aggregate-catalog.ts";

/**
 * The name of the aggregate server, which offers everything that a tenant's servers offer (S10). It only routes: a call
 * runs the tool of the server's current release. No other server can have this name.
 */
export const ALL_SERVERS = "";

/** Adds the aggregate server to `host`. */
export function withAggregate(host: Host, log?: Pick<Log, "warn">): Host {
  const tenants = new Map<string, AggregateServer>();
  const aggregateOf = (tenant: string): AggregateServer => {
    let aggregate = tenants.get(tenant);
    if (!aggregate) tenants.set(tenant, (aggregate = new AggregateServer(tenant, host, log)));
    return aggregate;
  };
  return {
    ...host,
    server: (tenant, name) => (name === ALL_SERVERS ? aggregateOf(tenant).catalog() : host.server(tenant, name)),
    startUnlisted: (tenant, principal) => aggregateOf(tenant).startUnlisted(principal),
    problems: (tenant) => [...host.problems(tenant), ...(tenants.get(tenant)?.omissions ?? [])],
    watch: (tenant, name, listener) =>
      name === ALL_SERVERS ? aggregateOf(tenant).watch(listener) : host.watch(tenant, name, listener),
    async reload(tenant, expected, onRead) {
      await host.reload(tenant, expected, onRead);
      await tenants.get(tenant)?.reloaded();
    },
    unloadIdle(tenant) {
      if (tenants.get(tenant)?.unload() === false || !host.unloadIdle(tenant)) return false;
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

interface CachedPart {
  readonly listed: DirectoryEntry | undefined;
  readonly part: Part;
}

/** Memory limit of a tenant's aggregate catalog. */
const bounds = fixed({ allServersBytes: 32 * 1024 * 1024 });

/** Batch size for reading servers, between checks of the memory limit. */
const READ_BATCH = 16;

/** Upstreams started concurrently for lists: a tenant may have a thousand. */
const STARTS_MAX = 4;

/** How long a list waits for starting upstreams. Clients are notified of slower ones. */
const START_WAIT_MS = 3_000;

/** One tenant's aggregate catalog: composed on demand, again after a server is added, changed or removed. */
class AggregateServer {
  readonly #tenant: string;
  readonly #host: Host;
  readonly #log: Pick<Log, "warn"> | undefined;
  readonly #listeners = new Set<ChangeListener>();
  /** Upstreams that the current catalog omits because their contract is unknown. */
  #unlisted: readonly string[] = [];
  /** For each starting upstream, a promise that lists wait for. */
  readonly #starting = new Map<string, Promise<void>>();
  readonly #starts = new FairSemaphore(STARTS_MAX, Infinity, () => STARTS_MAX);
  /** The tenant has reached its process limit; the next list tries again. */
  #isAtProcessLimit = false;
  /** Reports what the current catalog omits. */
  omissions: readonly Problem[] = [];
  /** By server; valid while its directory entry is the same object. */
  #parts = new Map<string, CachedPart>();
  #directory: Directory | undefined;
  #unwatch: (() => void) | undefined;
  /** Incremented whenever a composed catalog becomes stale. */
  #version = 0;
  #current: Catalog | undefined;
  #composing: Promise<Catalog> | undefined;
  /** The catalog that listeners were last notified about. */
  #announced: Catalog | undefined;
  #announcing: Promise<void> = Promise.resolve();

  constructor(tenant: string, host: Host, log: Pick<Log, "warn"> | undefined) {
    this.#tenant = tenant;
    this.#host = host;
    this.#log = log;
  }

  catalog(): Catalog | Promise<Catalog> {
    return this.#current ?? (this.#composing ??= this.#compose());
  }

  async startUnlisted(principal: Principal | undefined): Promise<void> {
    try {
      await this.catalog();
    } catch {
      // The caller gets the error when it uses the catalog.
      return;
    }
    const starting = this.#unlisted.flatMap((name) => {
      if (principal && !principal.permits("read", name) && !principal.permits("call", name)) return [];
      return this.#starting.get(name) ?? this.#start(name) ?? [];
    });
    await Promise.all(starting);
  }

  watch(listener: ChangeListener): () => void {
    const own: ChangeListener = (change) => listener(change);
    this.#listeners.add(own);
    void this.#announce();
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.#announced = undefined;
    };
  }

  /** Calls `changed` if the directory has changed since the catalog was composed. */
  async reloaded(): Promise<void> {
    if (this.#directory === undefined || this.#directory !== this.#host.directory(this.#tenant)) await this.changed();
  }

  /** Resolves when the listeners have been notified. */
  changed(): Promise<void> {
    this.#version++;
    this.#current = undefined;
    this.#composing = undefined;
    return this.#announce();
  }

  /** Clears the cache. While there are listeners, does nothing and returns false. */
  unload(): boolean {
    if (this.#listeners.size > 0) return false;
    this.#version++;
    this.#current = undefined;
    this.#composing = undefined;
    this.#parts.clear();
    this.#unwatch?.();
    this.#unwatch = undefined;
    return true;
  }

  close(): void {
    this.#listeners.clear();
    this.unload();
  }

  async #compose(): Promise<Catalog> {
    const version = this.#version;
    this.#unwatch ??= this.#host.watchAll(this.#tenant, (server, change) => this.#follow(server, change));
    this.#directory = this.#host.directory(this.#tenant);
    const servers = this.#directory?.servers;
    const cached = this.#parts;
    const unlisted: string[] = [];
    const read = async (name: string): Promise<(readonly [string, CachedPart])[]> => {
      const listed = servers?.get(name);
      const before = cached.get(name);
      if (before && before.listed === listed) return [[name, before]];
      const summary = await this.#host.summary(this.#tenant, name, { oneOfAll: true });
      if (!summary) return [];
      const hasFailed = summary.problems.some(({ code }) => code === "upstream-not-started");
      if (hasFailed || summary.state === "unstarted" || summary.state === "starting") unlisted.push(name);
      return [[name, { listed, part: createPart(summary) }]];
    };
    const { allServersBytes } = bounds;
    const parts = new Map<string, CachedPart>();
    const names = this.#host.names(this.#tenant);
    let bytes = 0;
    for (let at = 0; at < names.length; at += READ_BATCH) {
      for (const [name, cachedPart] of (await mapYielding(names.slice(at, at + READ_BATCH), read)).flat()) {
        const { part } = cachedPart;
        const fits = bytes + part.heldBytes <= allServersBytes;
        if (fits) bytes += part.heldBytes;
        parts.set(name, fits ? cachedPart : { ...cachedPart, part: withoutOffer(part, allServersBytes) });
      }
    }
    const all = Array.from(parts.values(), ({ part }) => part);
    const catalog = await composeServers(this.#tenant, all, this.#host);
    // If servers changed meanwhile, return the catalog to waiting callers, but do not cache it.
    if (this.#version === version) {
      // A server without an offer may have one next time.
      for (const [name, { part }] of parts) if (!part.offer) parts.delete(name);
      this.#parts = parts;
      this.#unlisted = unlisted;
      this.#current = catalog;
      this.#composing = undefined;
      this.#reportOmissions(catalog);
    }
    return catalog;
  }

  #follow(server: string, change: ServerChange | undefined): void {
    if (change) {
      const forwarded: ServerChange = change.kind === "resource" ? { ...change, server } : change;
      for (const listener of this.#listeners) listener(forwarded);
    } else {
      this.#parts.delete(server);
      void this.changed();
    }
  }

  /** Undefined until the next attempt is due. Lists do not wait for an upstream that has failed before. */
  #start(name: string): Promise<void> | undefined {
    const { state, retryAt } = this.#host.upstream(this.#tenant, name)?.health ?? {};
    if (retryAt !== undefined) return undefined;
    const ended = this.#startOne(name).finally(() => {
      this.#starting.delete(name);
      if (this.#starting.size === 0) this.#isAtProcessLimit = false;
    });
    const awaited = state === "failed" ? Promise.resolve() : awaitBriefly(ended);
    this.#starting.set(name, awaited);
    return awaited;
  }

  async #startOne(name: string): Promise<void> {
    await this.#starts.enter("", () => {});
    try {
      if (this.#isAtProcessLimit) return;
      await this.#host.server(this.#tenant, name);
      void this.changed();
    } catch (error) {
      this.#isAtProcessLimit ||= error instanceof BerthError && error.code === "too_many_processes";
    } finally {
      this.#starts.leave("");
    }
  }

  /** Logs each omission once, and stores it for the page of all servers: no page shows the problems of this catalog. */
  #reportOmissions({ problems }: Catalog): void {
    const before = new Set(this.omissions.map(({ message }) => message));
    this.omissions = shortProblems(listedProblems(problems.filter(({ code }) => code === NOT_IN_ALL)));
    for (const { message } of this.omissions) {
      if (!before.has(message)) this.#log?.warn({ tenant: this.#tenant }, message);
    }
  }

  #announce(): Promise<void> {
    if (this.#listeners.size === 0) return Promise.resolve();
    this.#announcing = this.#announceAfter(this.#announcing);
    return this.#announcing;
  }

  async #announceAfter(previous: Promise<void>): Promise<void> {
    await previous;
    const [before, now] = [this.#announced, await this.catalog()];
    this.#announced = now;
    if (!before || before === now) return;
    for (const kind of await changedLists(before.contract, now.contract)) {
      for (const listener of this.#listeners) listener({ kind });
    }
  }
}

/** Resolves when `ended` does, which never rejects, or after `START_WAIT_MS`. */
function awaitBriefly(ended: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(START_WAIT_MS, resolve).unref();
    void ended.finally(() => {
      timer.clear();
      resolve();
    });
  });
}

async function changedLists(before: Contract, now: Contract): Promise<("tools" | "resources" | "prompts")[]> {
  const yieldIfDue = createYielder();
  const differ = async (list: "tools" | "resources" | "resourceTemplates" | "prompts"): Promise<boolean> => {
    const others = now[list];
    if (before[list].length !== others.length) return true;
    for (const [index, own] of before[list].entries()) {
      await yieldIfDue();
      // Items of unchanged servers are the same objects.
      if (own !== others[index] && JSON.stringify(own) !== JSON.stringify(others[index])) return true;
    }
    return false;
  };
  return [
    ...((await differ("tools")) ? (["tools"] as const) : []),
    ...((await differ("resources")) || (await differ("resourceTemplates")) ? (["resources"] as const) : []),
    ...((await differ("prompts")) ? (["prompts"] as const) : []),
  ];
}
