import { jsonBlock } from "../cid.ts";
import { BerthError } from "../errors.ts";
import type { Problem } from "../problem.ts";
import type {
  Catalog,
  Completer,
  Contract,
  Prompt,
  PromptContract,
  Resource,
  ResourceContract,
  ResourceTemplateContract,
  Tool,
  ToolContract,
} from "./catalog.ts";
import type { Host, ServerSummary } from "./host.ts";
import { parseAddress } from "./uris/address.ts";
import type { ChangeListener } from "./watchers.ts";

/**
 * One server that offers what all of a tenant's servers offer (S10). It owns names only: a call goes to the server's
 * own tool, of whatever release that server then has. No server can have this name.
 */
export const ALL_SERVERS = "";

/** What every revision lets a tool or a prompt be called. */
const SHARED_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

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
    async reload(tenant) {
      await host.reload(tenant);
      await tenants.get(tenant)?.changed();
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

  close(): void {
    this.#listeners.clear();
    this.#watchAll([]);
  }

  async #compose(): Promise<Catalog> {
    const version = this.#version;
    const servers = await this.#host.list(this.#tenant);
    const unstarted = servers.filter(({ state }) => state === "unstarted" || state === "starting");
    this.#watchAll(servers.flatMap((server) => (unstarted.includes(server) ? [] : [server.name])));
    for (const { name } of unstarted) this.#bringIn(name);
    const catalog = compose(this.#tenant, servers, this.#host);
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

/** What something of the whole is in its own server. */
interface Origin<Own> {
  readonly server: string;
  readonly own: Own;
}

function compose(tenant: string, servers: readonly ServerSummary[], host: Host): Catalog {
  const parts = new Parts(servers);
  const of = (server: string): Catalog | Promise<Catalog> => host.server(tenant, server);
  const served = servers.flatMap(({ name, catalog }) => (catalog ? [name] : []));
  // Only servers that have any are asked for a URI; catalogs of the others may be unloaded while nobody calls them.
  const withResources = servers.flatMap(({ catalog }) =>
    catalog && catalog.contract.resources.length + catalog.contract.resourceTemplates.length > 0 ? [catalog] : [],
  );
  // Of the tools themselves, so that they are the same wherever a tool is reached.
  const identities = new Map(servers.flatMap(({ name, catalog }) => (catalog ? [[name, catalog.identity]] : [])));
  const contract: Contract = {
    description: "Everything that is hosted here; names begin with the server they belong to.",
    tools: renamed(parts.tools, (_server, own, key) => ({ ...own, name: key })),
    resources: renamed(parts.resources, (server, own) => ({ ...own, name: `${server}.${own.name}` })),
    resourceTemplates: renamed(parts.templates, (server, own) => ({ ...own, name: `${server}.${own.name}` })),
    prompts: renamed(parts.prompts, (_server, own, key) => ({ ...own, name: key })),
  };
  const tools = new Map(contract.tools.map((tool) => [tool.name, toolOf(tool, parts.tools.get(tool.name)!, of)]));
  const prompts = new Map(
    contract.prompts.map((prompt) => [prompt.name, promptOf(prompt, parts.prompts.get(prompt.name)!, of)]),
  );

  return {
    server: "berth",
    release: jsonBlock(servers.map(({ name, catalog }) => [name, catalog?.release ?? null])).cid,
    contractCid: jsonBlock(contract).cid,
    contract,
    hidden: [],
    readsUris: served.length > 0,
    problems: [...servers.flatMap(({ problems }) => problems), ...parts.problems],
    tool: (name) => tools.get(name),
    resource: (uri) => resourceOf(giverOf(uri, served, withResources), uri, of),
    identity(name) {
      const origin = parts.tools.get(name);
      return origin && identities.get(origin.server)?.(origin.own.name);
    },
    prompt: (name) => prompts.get(name),
    completer(name, argument) {
      const prompt = parts.prompts.get(name);
      const origin = prompt ? { server: prompt.server, own: prompt.own.name } : parts.templates.get(name);
      return origin && completerOf(origin.server, prompt ? prompt.own.name : name, argument, of);
    },
    memo: new Map(),
  };
}

/** Everything of all servers by its name in the whole, in the order of servers and then of their own lists. */
class Parts {
  readonly tools = new Map<string, Origin<ToolContract>>();
  readonly prompts = new Map<string, Origin<PromptContract>>();
  /** A URI cannot be prefixed, so of two servers that give the same one the first has it. */
  readonly resources = new Map<string, Origin<ResourceContract>>();
  readonly templates = new Map<string, Origin<ResourceTemplateContract>>();
  readonly problems: Problem[] = [];

  constructor(servers: readonly ServerSummary[]) {
    for (const { name: server, catalog } of servers) {
      if (!catalog) continue;
      const { tools, prompts, resources, resourceTemplates } = catalog.contract;
      for (const own of tools) this.#addNamed(this.tools, "tool", server, own);
      for (const own of prompts) this.#addNamed(this.prompts, "prompt", server, own);
      for (const own of resources) this.#add(this.resources, own.uri, server, own);
      for (const own of resourceTemplates) this.#add(this.templates, own.uriTemplate, server, own);
    }
  }

  #addNamed<Own extends { name: string }>(map: Map<string, Origin<Own>>, kind: string, server: string, own: Own): void {
    const name = `${server}.${own.name}`;
    if (SHARED_NAME.test(name)) return this.#add(map, name, server, own);
    this.#leaveOut(`The ${kind} "${name}" is not offered at /mcp: clients take no such name`);
  }

  #add<Own>(map: Map<string, Origin<Own>>, key: string, server: string, own: Own): void {
    const taken = map.get(key);
    if (taken) this.#leaveOut(`"${key}" of ${server} is not offered at /mcp: ${taken.server} has the same`);
    else map.set(key, { server, own });
  }

  #leaveOut(message: string): void {
    this.problems.push({ code: "not-in-all", message, severity: "warning" });
  }
}

function renamed<Own>(
  parts: ReadonlyMap<string, Origin<Own>>,
  rename: (server: string, own: Own, key: string) => Own,
): Own[] {
  return Array.from(parts, ([key, { server, own }]) => rename(server, own, key));
}

type CatalogOf = (server: string) => Catalog | Promise<Catalog>;

function toolOf(contract: ToolContract, { server, own }: Origin<ToolContract>, of: CatalogOf): Tool {
  return {
    contract,
    async call(args, options) {
      const tool = (await of(server)).tool(own.name);
      if (!tool) throw gone(contract.name);
      return tool.call(args, options);
    },
  };
}

function promptOf(contract: PromptContract, { server, own }: Origin<PromptContract>, of: CatalogOf): Prompt {
  return {
    contract,
    async get(args, options) {
      const prompt = (await of(server)).prompt(own.name);
      if (!prompt) throw gone(contract.name);
      return prompt.get(args, options);
    },
  };
}

function completerOf(server: string, ownName: string, argument: string, of: CatalogOf): Completer {
  return {
    async complete(value, others, options) {
      const completer = (await of(server)).completer(ownName, argument);
      return completer ? completer.complete(value, others, options) : { values: [], total: 0, hasMore: false };
    },
  };
}

/**
 * The server that gives a URI: the first whose own it is or that lists it; of a function also the server whose it is,
 * and content is every server's.
 */
function giverOf(uri: string, served: readonly string[], withResources: readonly Catalog[]): string | undefined {
  const address = parseAddress(uri);
  if (address?.kind === "server" && served.includes(address.server)) return address.server;
  if (address?.kind === "cid") return served[0];
  return withResources.find((catalog) => catalog.resource(uri))?.server;
}

function resourceOf(server: string | undefined, uri: string, of: CatalogOf): Resource | undefined {
  if (server === undefined) return undefined;
  return {
    async read(options) {
      const resource = (await of(server)).resource(uri);
      if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return resource.read(options);
    },
  };
}

/** Its server has changed since the whole was composed. */
function gone(name: string): BerthError {
  return new BerthError("invalid_params", `${name} is not offered any more`);
}
