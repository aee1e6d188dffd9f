import type { Principal } from "../access/principal.ts";
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
import { permittedCatalog, permittedServers } from "./permitted.ts";
import { parseAddress } from "./uris/address.ts";

/** What every revision lets a tool or a prompt be called. */
const SHARED_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** What something of the whole is in its own server. */
interface Origin<Own> {
  readonly server: string;
  readonly own: Own;
}

/**
 * The catalog of all servers, composed of theirs: of what of them the principal may use, when there is one. It owns
 * which name, and which URI, leads to which server.
 */
export function composeServers(
  tenant: string,
  all: readonly ServerSummary[],
  host: Host,
  principal?: Principal,
): Catalog {
  const servers = permittedServers(all, principal);
  const parts = new Parts(servers);
  const of = (server: string): Catalog | Promise<Catalog> => {
    const catalog = host.server(tenant, server);
    if (!principal) return catalog;
    return catalog instanceof Promise
      ? catalog.then((loaded) => permittedCatalog(loaded, principal))
      : permittedCatalog(catalog, principal);
  };
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

  const whole: Catalog = {
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
    isNarrowed: principal !== undefined,
    narrow: (asking) =>
      all.every(({ name, catalog }) =>
        catalog ? permittedCatalog(catalog, asking) === catalog : asking.permits("read", name),
      )
        ? whole
        : composeServers(tenant, all, host, asking),
  };
  return whole;
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
