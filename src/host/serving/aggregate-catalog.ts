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
import { callableBy, permittedCatalog } from "../catalog/permitted.ts";
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
  readonly offer: Offered | undefined;
  /** Approximate size of the offer in memory. */
  readonly heldBytes: number;
  readonly problems: readonly Problem[];
}

interface Offered extends Pick<Contract, "tools" | "prompts" | "resources" | "resourceTemplates"> {
  readonly skills: readonly SkillContract[];
  readonly release: Cid;
  readonly contract: Cid;
  readonly identity: Catalog["identity"];
  readonly gives: Catalog["gives"];
  readonly hasUnlisted: boolean;
  readonly readsUris: boolean;
  /** Tools that start programs, by their unprefixed names. */
  readonly starting: Catalog["starting"];
}

export function partOf({ name: server, catalog, problems }: ServerSummary): Part {
  if (!catalog) return { server, offer: undefined, heldBytes: 0, problems: listedProblems(problems) };
  const leftOut: Problem[] = [];
  const named = <Own extends { readonly name: string }>(kind: string, all: readonly Own[]): Own[] =>
    all.flatMap((own) => {
      const there = inWhole(server, own);
      if (SHARED_NAME.test(there.name)) return [there];
      leftOut.push(notInAll(`The ${kind} "${there.name}" is not offered at /mcp: clients refuse such a name`));
      return [];
    });
  const { tools, prompts, resources, resourceTemplates, skills = [] } = catalog.contract;
  const ofSkills = new Set(skills.map(({ uri }) => uri));
  // Berth defines the meaning of its own schemes: ignore what an upstream lists under them.
  const mayShare = (uri: string): boolean => !catalog.hasUnlisted || !isOwnUri(uri);
  const hasResources = catalog.hasUnlisted || [resources, resourceTemplates, skills].some(({ length }) => length > 0);
  const offer: Offered = {
    release: catalog.release,
    contract: catalog.contractCid,
    tools: named("tool", tools),
    prompts: named("prompt", prompts),
      // A SKILL.md keeps the name of its skill.
    resources: resources
      .filter(({ uri }) => mayShare(uri))
      .map((own) => (ofSkills.has(own.uri) ? own : inWhole(server, own))),
    resourceTemplates: resourceTemplates
      .filter(({ uriTemplate }) => mayShare(uriTemplate))
      .map((own) => inWhole(server, own)),
    skills: skills.filter(({ uri }) => mayShare(uri)),
    identity: catalog.identity,
    gives: hasResources ? catalog.gives : givesNothing,
    hasUnlisted: catalog.hasUnlisted ?? false,
    readsUris: catalog.readsUris ?? false,
    starting: catalog.starting,
  };
  return { server, offer, heldBytes: catalog.heldBytes ?? 0, problems: listedProblems([...problems, ...leftOut]) };
}

const givesNothing = (): boolean => false;

/** Replaces a part that exceeds the memory limit. */
export function withoutOffer({ server, problems }: Part, bytesMax: number): Part {
  const reason = `the catalogs of all servers together would exceed ${bytesMax} bytes of memory`;
  const problem = notInAll(`The server "${server}" is not offered at /mcp: ${reason}; it is served at /mcp/${server}`);
  return { server, offer: undefined, heldBytes: 0, problems: [...problems, problem] };
}

function inWhole<Own extends { readonly name: string }>(server: string, own: Own): Own {
  return { ...own, name: `${server}.${own.name}` };
}

/** Narrows a part to what a principal may use: undefined if nothing, the same object if everything. */
function permittedPart(part: Part, principal: Principal): Part | undefined {
  const { server, offer } = part;
  const reads = principal.permits("read", server);
  if (!reads && !principal.permits("call", server)) return undefined;
  if (!offer) return part;
  const calls = callableBy(principal, { server, starting: offer.starting });
  const tools = offer.tools.filter(({ name }) => calls(ownName(server, name)));
  const callsAll = tools.length === offer.tools.length && (tools.length > 0 || principal.permits("call", server));
  if (callsAll && reads) return part;
  const contract = rawBlock([offer.contract, reads, ...tools.map(({ name }) => name)].join(" ")).cid;
  if (reads) return { ...part, offer: { ...offer, tools, contract } };
  const none = {
    prompts: [],
    resources: [],
    resourceTemplates: [],
    skills: [],
    gives: givesNothing,
    hasUnlisted: false,
    readsUris: false,
  };
  return { ...part, offer: { ...offer, ...none, tools, contract } };
}

async function permittedParts(all: readonly Part[], principal: Principal): Promise<Part[]> {
  const takeTurns = createYielder();
  const parts: Part[] = [];
  for (const part of all) {
    await takeTurns();
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
  const whole = await wholeOf(parts);
  const { offers, withResources } = whole;
  const of = (server: string): Catalog | Promise<Catalog> => {
    const catalog = host.server(tenant, server);
    if (!principal) return catalog;
    return catalog instanceof Promise
      ? catalog.then((loaded) => permittedCatalog(loaded, principal))
      : permittedCatalog(catalog, principal);
  };
  const contents = [...offers].find(([, { readsUris }]) => readsUris)?.[0];
  /**
   * Finds the server of a URI. A `server://` URI belongs to the server that it names; any server can read content. If
   * several servers offer a URI, returns two of them and neither serves it: otherwise an editor of one server could
   * hijack a resource of another. An unlisted URI belongs to the servers with unlisted resources.
   */
  const giversOf = async (uri: string): Promise<readonly string[]> => {
    const address = parseAddress(uri);
    if (address?.kind === "server" && offers.has(address.server)) return [address.server];
    if (address?.kind === "cid") return contents === undefined ? [] : [contents];
    // A variable reads the same through every server that lists it.
    const most = address?.kind === "variable" ? 0 : 1;
    const takeTurns = createYielder();
    const givers: string[] = [];
    for (const [server, { gives }] of withResources) {
      await takeTurns();
      if (await gives(uri)) givers.push(server);
      if (givers.length > most) break;
    }
    if (givers.length > 0 || address) return givers;
    return withResources.filter(([, { hasUnlisted }]) => hasUnlisted).map(([server]) => server);
  };
  const contract: Contract = {
    description: "All servers hosted here. Each name starts with the name of its server.",
    ...whole.lists,
  };

  /**
   * Apps call the tools of their own server by unprefixed name, and a request does not identify its app. So an
   * unprefixed name resolves if exactly one server with apps offers them a tool of that name.
   */
  const calledByApps = (name: string): Origin<ToolContract> | undefined => {
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
  const made = new Map<string, Tool>();

  const catalog: Catalog = {
    server: "berth",
    release: rawBlock(whole.releases).cid,
    contractCid: rawBlock(whole.contracts).cid,
    contract,
    hidden: [],
    readsUris: offers.size > 0,
    problems: whole.problems,
    tool(name) {
      const origin = whole.tools.get(name) ?? calledByApps(name);
      let tool = made.get(name);
      if (origin && !tool) made.set(name, (tool = toolOf(origin, of)));
      return tool;
    },
    resource: async (uri) => resourceOf(await giversOf(uri), uri, of),
    gives: async (uri) => (await giversOf(uri)).length === 1,
    // The identity of a tool does not depend on the endpoint.
    identity(name) {
      const origin = whole.tools.get(name);
      return origin && offers.get(origin.server)?.identity(ownName(origin.server, name));
    },
    prompt(name) {
      const origin = whole.prompts.get(name);
      return origin && promptOf(origin, of);
    },
    completer(name, argument) {
      const prompt = whole.prompts.get(name);
      if (prompt) return completerOf(prompt.server, ownName(prompt.server, name), argument, of);
      const template = whole.templates.get(name);
      return template && completerOf(template.server, name, argument, of);
    },
    memo: new Map(),
    isNarrowed: principal !== undefined,
    servers: parts.length,
    async narrow(asking) {
      const permitted = await permittedParts(parts, asking);
      const isAll = permitted.length === parts.length && permitted.every((part, index) => part === parts[index]);
      return isAll ? catalog : composeServers(tenant, permitted, host, asking);
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
interface Whole {
  readonly offers: ReadonlyMap<string, Offered>;
  readonly withResources: readonly (readonly [server: string, offer: Offered])[];
  readonly tools: ReadonlyMap<string, Origin<ToolContract>>;
  readonly prompts: ReadonlyMap<string, Origin<PromptContract>>;
  readonly templates: ReadonlyMap<string, Origin<ResourceTemplateContract>>;
  readonly lists: Pick<Contract, "tools" | "prompts" | "resources" | "resourceTemplates" | "skills" | "extensions">;
  readonly problems: readonly Problem[];
  /** One line per server with its release or contract CID. The aggregate's own CIDs are computed from them. */
  readonly releases: string;
  readonly contracts: string;
}

async function wholeOf(parts: readonly Part[]): Promise<Whole> {
  const offers = new Map<string, Offered>();
  const withResources: (readonly [string, Offered])[] = [];
  const tools = new Named<ToolContract>();
  const prompts = new Named<PromptContract>();
  const resources = new Named<ResourceContract>();
  const templates = new Named<ResourceTemplateContract>();
  const skills = new Named<SkillContract>();
  const problems: Problem[] = [];
  const leftOut: Problem[] = [];
  let [releases, contracts] = ["", ""];
  const names = new Set(parts.map(({ server }) => server));
  const takeTurns = createYielder();
  for (const { server, offer, problems: own } of parts) {
    await takeTurns();
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
        const owner = ownerOf(each.name, names, server);
        if (owner === server) all.add(each.name, server, each as never);
        else {
          const reason = `names that start with "${owner}." belong to the server "${owner}"`;
          leftOut.push(
            notInAll(
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
  for (const each of [resources, templates, skills]) leftOut.push(...each.settle());
  for (const each of leftOut) {
    await takeTurns();
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
function ownerOf(name: string, servers: ReadonlySet<string>, server: string): string {
  for (let at = name.lastIndexOf("."); at > server.length; at = name.lastIndexOf(".", at - 1)) {
    if (servers.has(name.slice(0, at))) return name.slice(0, at);
  }
  return server;
}

/**
 * Items by a key, such as a URI. If two servers offer the same key, neither serves it, except for Berth's own URIs,
 * which mean the same everywhere.
 */
class Named<Own> {
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
  settle(): Problem[] {
    return Array.from(this.#contested, ([key, [one, other]]) => {
      this.origins.delete(key);
      return notInAll(`"${key}" is not offered at /mcp: both ${one} and ${other} offer it`);
    });
  }
}

/** Problem code: something is offered only at the server's own endpoint. */
export const NOT_IN_ALL = "not-in-all";

function notInAll(message: string): Problem {
  return { code: NOT_IN_ALL, message, severity: "warning" };
}

/** Removes the prefix of a name. */
function ownName(server: string, name: string): string {
  return name.slice(server.length + 1);
}

type CatalogOf = (server: string) => Catalog | Promise<Catalog>;

function toolOf({ server, own: contract }: Origin<ToolContract>, of: CatalogOf): Tool {
  const own = async (): Promise<Tool | undefined> => (await of(server)).tool(ownName(server, contract.name));
  return {
    contract,
    asksConsent: async () => (await own())?.asksConsent?.() ?? false,
    async call(args, options) {
      const tool = await own();
      if (!tool) throw gone(contract.name);
      return tool.call(args, options);
    },
  };
}

function promptOf({ server, own: contract }: Origin<PromptContract>, of: CatalogOf): Prompt {
  return {
    contract,
    async get(args, options) {
      const prompt = (await of(server)).prompt(ownName(server, contract.name));
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

function resourceOf([server, other]: readonly string[], uri: string, of: CatalogOf): Resource | undefined {
  if (server === undefined) return undefined;
  if (other !== undefined) {
    const message = `${uri}: both ${server} and ${other} offer it; read it at /mcp/${server} or at /mcp/${other}`;
    throw new BerthError("resource_not_found", message, { data: { uri } });
  }
  return {
    async read(options) {
      const resource = await (await of(server)).resource(uri);
      if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return resource.read(options);
    },
  };
}

/** The server changed after the aggregate catalog was composed. */
function gone(name: string): BerthError {
  return new BerthError("invalid_params", `${name} is no longer offered`);
}
