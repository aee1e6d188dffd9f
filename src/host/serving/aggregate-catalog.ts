import type { Principal } from "../../access/principal.ts";
import { APP_MIME_TYPE, readAppUri, readCallers } from "../../contract/apps.ts";
import type { SkillContract } from "../../contract/contract.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import { SKILLS_OFFERED } from "../../contract/skills.ts";
import { isOwnUri, parseAddress } from "../../entry/address.ts";
import { rawBlock, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { listedProblems, type Problem } from "../../lib/problem.ts";
import type { ServerSummary } from "../catalog/overview.ts";
import { createCallFilter, permittedCatalog } from "../catalog/permitted.ts";
import type { Host } from "../host.ts";
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
} from "../offers/catalog.ts";

/** Names of tools and prompts that every protocol revision allows. */
const SHARED_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/**
 * One server's contribution to the aggregate catalog, with prefixed names. It is cached until the server changes, and
 * does not reference the server's catalog, so that catalogs can be evicted.
 */
export interface Part {
  readonly server: string;
  /** Undefined when the server is not served. */
  readonly offer: ServerOffer | undefined;
  /** Approximate size of the offer in memory. */
  readonly heldBytes: number;
  readonly problems: readonly Problem[];
}

interface ServerOffer extends Pick<Contract, "tools" | "prompts" | "resources" | "resourceTemplates"> {
  readonly skills: readonly SkillContract[];
  readonly release: Cid;
  readonly contract: Cid;
  readonly identity: Catalog["identity"];
  readonly servesUri: Catalog["servesUri"];
  readonly hasUnlisted: boolean;
  readonly readsUris: boolean;
  /** Tools that start programs, by their unprefixed names. */
  readonly starting: Catalog["starting"];
}

export function createPart({ name: server, catalog, problems }: ServerSummary): Part {
  if (!catalog) return { server, offer: undefined, heldBytes: 0, problems: listedProblems(problems) };
  const omissions: Problem[] = [];
  const withPrefix = <Own extends { readonly name: string }>(kind: string, all: readonly Own[]): Own[] =>
    all.flatMap((own) => {
      const prefixed = addPrefix(server, own);
      if (SHARED_NAME.test(prefixed.name)) return [prefixed];
      omissions.push(omission(`The ${kind} "${prefixed.name}" is not offered at /mcp: clients refuse such a name`));
      return [];
    });
  const { tools, prompts, resources, resourceTemplates, skills = [] } = catalog.contract;
  const skillUris = new Set(skills.map(({ uri }) => uri));
  // Berth defines the meaning of its own schemes: ignore what an upstream lists under them.
  const isShareable = (uri: string): boolean => !catalog.hasUnlisted || !isOwnUri(uri);
  const hasResources = catalog.hasUnlisted || [resources, resourceTemplates, skills].some(({ length }) => length > 0);
  const offer: ServerOffer = {
    release: catalog.release,
    contract: catalog.contractCid,
    tools: withPrefix("tool", tools),
    prompts: withPrefix("prompt", prompts),
    // A SKILL.md keeps the name of its skill.
    resources: resources
      .filter(({ uri }) => isShareable(uri))
      .map((own) => (skillUris.has(own.uri) ? own : addPrefix(server, own))),
    resourceTemplates: resourceTemplates
      .filter(({ uriTemplate }) => isShareable(uriTemplate))
      .map((own) => addPrefix(server, own)),
    skills: skills.filter(({ uri }) => isShareable(uri)),
    identity: catalog.identity,
    servesUri: hasResources ? catalog.servesUri : servesNoUri,
    hasUnlisted: catalog.hasUnlisted ?? false,
    readsUris: catalog.readsUris ?? false,
    starting: catalog.starting,
  };
  return { server, offer, heldBytes: catalog.heldBytes ?? 0, problems: listedProblems([...problems, ...omissions]) };
}

const servesNoUri = (): boolean => false;

/** Replaces a part that exceeds the memory limit. */
export function withoutOffer({ server, problems }: Part, bytesMax: number): Part {
  const reason = `the catalogs of all servers together would exceed ${bytesMax} bytes of memory`;
  const problem = omission(`The server "${server}" is not offered at /mcp: ${reason}; it is served at /mcp/${server}`);
  return { server, offer: undefined, heldBytes: 0, problems: [...problems, problem] };
}

function addPrefix<Own extends { readonly name: string }>(server: string, own: Own): Own {
  return { ...own, name: `${server}.${own.name}` };
}

/** Narrows a part to what a principal may use: undefined if nothing, the same object if everything. */
function permittedPart(part: Part, principal: Principal): Part | undefined {
  const { server, offer } = part;
  const reads = principal.permits("read", server);
  if (!reads && !principal.permits("call", server)) return undefined;
  if (!offer) return part;
  const calls = createCallFilter(principal, { server, starting: offer.starting });
  const tools = offer.tools.filter(({ name }) => calls(ownName(server, name)));
  const callsAll = tools.length === offer.tools.length && (tools.length > 0 || principal.permits("call", server));
  if (callsAll && reads) return part;
  const contract = rawBlock([offer.contract, reads, ...tools.map(({ name }) => name)].join(" ")).cid;
  if (reads) return { ...part, offer: { ...offer, tools, contract } };
  const unreadable = {
    prompts: [],
    resources: [],
    resourceTemplates: [],
    skills: [],
    servesUri: servesNoUri,
    hasUnlisted: false,
    readsUris: false,
  };
  return { ...part, offer: { ...offer, ...unreadable, tools, contract } };
}

async function permittedParts(all: readonly Part[], principal: Principal): Promise<Part[]> {
  const yieldIfDue = createYielder();
  const parts: Part[] = [];
  for (const part of all) {
    await yieldIfDue();
    const permitted = permittedPart(part, principal);
    if (permitted) parts.push(permitted);
  }
  return parts;
}

/**
 * Composes the aggregate catalog from the parts, with `principal` only from what it may use, and routes each name and
 * URI to its server. Yields to other calls, because a tenant may have thousands of servers.
 */
export async function composeServers(
  tenant: string,
  parts: readonly Part[],
  host: Host,
  principal?: Principal,
): Promise<Catalog> {
  const merged = await mergeOffers(parts);
  const { offers, withResources } = merged;
  const catalogOf = (server: string): Catalog | Promise<Catalog> => {
    const catalog = host.server(tenant, server);
    if (!principal) return catalog;
    return catalog instanceof Promise
      ? catalog.then((loaded) => permittedCatalog(loaded, principal))
      : permittedCatalog(catalog, principal);
  };
  const contentServer = [...offers].find(([, { readsUris }]) => readsUris)?.[0];
  /**
   * Finds the server of a URI. A `server://` URI belongs to the server that it names; any server can read content. If
   * several servers offer a URI, returns two of them and neither serves it: otherwise an editor of one server could
   * hijack a resource of another. An unlisted URI belongs to the servers with unlisted resources.
   */
  const findProviders = async (uri: string): Promise<readonly string[]> => {
    const address = parseAddress(uri);
    if (address?.kind === "server" && offers.has(address.server)) return [address.server];
    if (address?.kind === "cid") return contentServer === undefined ? [] : [contentServer];
    // A variable reads the same through every server that lists it.
    const most = address?.kind === "variable" ? 0 : 1;
    const yieldIfDue = createYielder();
    const providers: string[] = [];
    for (const [server, { servesUri }] of withResources) {
      await yieldIfDue();
      if (await servesUri(uri)) providers.push(server);
      if (providers.length > most) break;
    }
    if (providers.length > 0 || address) return providers;
    return withResources.filter(([, { hasUnlisted }]) => hasUnlisted).map(([server]) => server);
  };
  const contract: Contract = {
    description: "All servers hosted here. Each name starts with the name of its server.",
    ...merged.lists,
  };

  /**
   * Apps call the tools of their own server by unprefixed name, and a request does not identify its app. So an
   * unprefixed name resolves if exactly one server with apps offers them a tool of that name.
   */
  const findAppTool = (name: string): Origin<ToolContract> | undefined => {
    if (SERVER_AND_NAME.test(name) && offers.has(name.slice(0, name.indexOf(".")))) return undefined;
    const found = [...offers].flatMap(([server, { tools }]) => {
      if (!tools.some((tool) => readAppUri(tool) !== undefined)) return [];
      const own = tools.find((tool) => ownName(server, tool.name) === name && readCallers(tool).app);
      return own ? [{ server, own }] : [];
    });
    const [one, other] = found;
    if (!one || !other) return one;
    const message = `apps of both ${one.server} and ${other.server} may call ${name}; connect to /mcp/${one.server} or to /mcp/${other.server}`;
    throw new BerthError("invalid_params", message);
  };

  /** Caches the tools that were requested. */
  const tools = new Map<string, Tool>();

  const catalog: Catalog = {
    server: "berth",
    release: rawBlock(merged.releases).cid,
    contractCid: rawBlock(merged.contracts).cid,
    contract,
    hidden: [],
    readsUris: offers.size > 0,
    problems: merged.problems,
    tool(name) {
      const origin = merged.tools.get(name) ?? findAppTool(name);
      let tool = tools.get(name);
      if (origin && !tool) tools.set(name, (tool = createTool(origin, catalogOf)));
      return tool;
    },
    resource: async (uri) => createResource(await findProviders(uri), uri, catalogOf),
    servesUri: async (uri) => (await findProviders(uri)).length === 1,
    // The identity of a tool does not depend on the endpoint.
    identity(name) {
      const origin = merged.tools.get(name);
      return origin && offers.get(origin.server)?.identity(ownName(origin.server, name));
    },
    prompt(name) {
      const origin = merged.prompts.get(name);
      return origin && createPrompt(origin, catalogOf);
    },
    completer(name, argument) {
      const prompt = merged.prompts.get(name);
      if (prompt) return createCompleter(prompt.server, ownName(prompt.server, name), argument, catalogOf);
      const template = merged.templates.get(name);
      return template && createCompleter(template.server, name, argument, catalogOf);
    },
    memo: new Map(),
    isNarrowed: principal !== undefined,
    servers: parts.length,
    async narrow(requester) {
      const permitted = await permittedParts(parts, requester);
      const isAll = permitted.length === parts.length && permitted.every((part, index) => part === parts[index]);
      return isAll ? catalog : composeServers(tenant, permitted, host, requester);
    },
  };
  return catalog;
}

const SERVER_AND_NAME = /^[^.]+\./;

/** An item of the aggregate catalog, and the server that offers it. */
interface Origin<Own> {
  readonly server: string;
  readonly own: Own;
}

/** The offers of all servers, by prefixed name, ordered by server and then as the server lists them. */
interface MergedOffers {
  readonly offers: ReadonlyMap<string, ServerOffer>;
  readonly withResources: readonly (readonly [server: string, offer: ServerOffer])[];
  readonly tools: ReadonlyMap<string, Origin<ToolContract>>;
  readonly prompts: ReadonlyMap<string, Origin<PromptContract>>;
  readonly templates: ReadonlyMap<string, Origin<ResourceTemplateContract>>;
  readonly lists: Pick<Contract, "tools" | "prompts" | "resources" | "resourceTemplates" | "skills" | "extensions">;
  readonly problems: readonly Problem[];
  /** One line per server with its release or contract CID. The aggregate's own CIDs are computed from them. */
  readonly releases: string;
  readonly contracts: string;
}

async function mergeOffers(parts: readonly Part[]): Promise<MergedOffers> {
  const offers = new Map<string, ServerOffer>();
  const withResources: (readonly [string, ServerOffer])[] = [];
  const tools = new ItemsByKey<ToolContract>();
  const prompts = new ItemsByKey<PromptContract>();
  const resources = new ItemsByKey<ResourceContract>();
  const templates = new ItemsByKey<ResourceTemplateContract>();
  const skills = new ItemsByKey<SkillContract>();
  const problems: Problem[] = [];
  const omissions: Problem[] = [];
  let [releases, contracts] = ["", ""];
  const names = new Set(parts.map(({ server }) => server));
  const yieldIfDue = createYielder();
  for (const { server, offer, problems: own } of parts) {
    await yieldIfDue();
    problems.push(...own);
    releases += `${server} ${offer ? offer.release : "-"}\n`;
    contracts += `${server} ${offer ? offer.contract : "-"}\n`;
    if (!offer) continue;
    offers.set(server, offer);
    const lists = [offer.resources, offer.resourceTemplates, offer.skills];
    if (offer.hasUnlisted || lists.some(({ length }) => length > 0)) withResources.push([server, offer]);
    for (const [kind, own, all] of [
      ["tool", offer.tools, tools],
      ["prompt", offer.prompts, prompts],
    ] as const) {
      for (const each of own) {
        const owner = findOwner(each.name, names, server);
        if (owner === server) all.add(each.name, server, each as never);
        else {
          const reason = `names that start with "${owner}." belong to the server "${owner}"`;
          omissions.push(
            omission(
              `The ${kind} "${each.name}" of ${server} is served only at /mcp/${server}, not at /mcp: ${reason}`,
            ),
          );
        }
      }
    }
    for (const each of offer.resources) resources.add(each.uri, server, each);
    for (const each of offer.resourceTemplates) templates.add(each.uriTemplate, server, each);
    for (const each of offer.skills) skills.add(each.uri, server, each);
  }
  for (const each of [resources, templates, skills]) omissions.push(...each.dropContested());
  for (const each of omissions) {
    await yieldIfDue();
    problems.push(each);
  }
  const hasApps = tools.all.some((tool) => readAppUri(tool) !== undefined);
  const extensions = {
    ...(hasApps && { [EXTENSION_UI]: { mimeTypes: [APP_MIME_TYPE] } }),
    ...(skills.origins.size > 0 && SKILLS_OFFERED),
  };
  return {
    offers,
    withResources,
    tools: tools.origins,
    prompts: prompts.origins,
    templates: templates.origins,
    lists: {
      tools: tools.all,
      prompts: prompts.all,
      resources: resources.all,
      resourceTemplates: templates.all,
      ...(skills.origins.size > 0 && { skills: skills.all }),
      ...(Object.keys(extensions).length > 0 && { extensions }),
    },
    problems,
    releases,
    contracts,
  };
}

/**
 * The server whose name is the longest prefix of a prefixed name, even if it has no such tool. Native calls resolve
 * names the same way. This stops a server from claiming another's names with a tool name that contains a dot.
 */
function findOwner(name: string, servers: ReadonlySet<string>, server: string): string {
  for (let at = name.lastIndexOf("."); at > server.length; at = name.lastIndexOf(".", at - 1)) {
    if (servers.has(name.slice(0, at))) return name.slice(0, at);
  }
  return server;
}

/**
 * Items by a key, such as a URI. If two servers offer the same key, neither serves it, except for Berth's own URIs,
 * which mean the same everywhere.
 */
class ItemsByKey<Own> {
  readonly origins = new Map<string, Origin<Own>>();
  /** Keys with two of the servers that offer them. */
  readonly #contested = new Map<string, readonly [string, string]>();

  get all(): Own[] {
    return Array.from(this.origins.values(), ({ own }) => own);
  }

  add(key: string, server: string, own: Own): void {
    const taken = this.origins.get(key);
    if (!taken) this.origins.set(key, { server, own });
    else if (taken.server !== server && !isOwnUri(key)) this.#contested.set(key, [taken.server, server]);
  }

  /** Removes keys that several servers offer, and reports them. */
  dropContested(): Problem[] {
    return Array.from(this.#contested, ([key, [one, other]]) => {
      this.origins.delete(key);
      return omission(`"${key}" is not offered at /mcp: both ${one} and ${other} offer it`);
    });
  }
}

/** Problem code: something is offered only at the server's own endpoint. */
export const NOT_IN_ALL = "not-in-all";

function omission(message: string): Problem {
  return { code: NOT_IN_ALL, message, severity: "warning" };
}

/** Removes the prefix of a name. */
function ownName(server: string, name: string): string {
  return name.slice(server.length + 1);
}

type CatalogLookup = (server: string) => Catalog | Promise<Catalog>;

function createTool({ server, own: contract }: Origin<ToolContract>, catalogOf: CatalogLookup): Tool {
  const own = async (): Promise<Tool | undefined> => (await catalogOf(server)).tool(ownName(server, contract.name));
  return {
    contract,
    asksConsent: async () => (await own())?.asksConsent?.() ?? false,
    async call(args, options) {
      const tool = await own();
      if (!tool) throw noLongerOffered(contract.name);
      return tool.call(args, options);
    },
  };
}

function createPrompt({ server, own: contract }: Origin<PromptContract>, catalogOf: CatalogLookup): Prompt {
  return {
    contract,
    async get(args, options) {
      const prompt = (await catalogOf(server)).prompt(ownName(server, contract.name));
      if (!prompt) throw noLongerOffered(contract.name);
      return prompt.get(args, options);
    },
  };
}

function createCompleter(server: string, ownName: string, argument: string, catalogOf: CatalogLookup): Completer {
  return {
    async complete(value, others, options) {
      const completer = (await catalogOf(server)).completer(ownName, argument);
      return completer ? completer.complete(value, others, options) : { values: [], total: 0, hasMore: false };
    },
  };
}

function createResource(
  [server, other]: readonly string[],
  uri: string,
  catalogOf: CatalogLookup,
): Resource | undefined {
  if (server === undefined) return undefined;
  if (other !== undefined) {
    const message = `${uri}: both ${server} and ${other} offer it; read it at /mcp/${server} or at /mcp/${other}`;
    throw new BerthError("resource_not_found", message, { data: { uri } });
  }
  return {
    async read(options) {
      const resource = await (await catalogOf(server)).resource(uri);
      if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return resource.read(options);
    },
  };
}

/** The server changed after the aggregate catalog was composed. */
function noLongerOffered(name: string): BerthError {
  return new BerthError("invalid_params", `${name} is no longer offered`);
}
