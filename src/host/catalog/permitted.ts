import type { Principal } from "../../access/principal.ts";
import { RIGHTS } from "../../access/rights.ts";
import { EXTENSION_SKILLS } from "../../contract/extensions.ts";
import { rawBlock } from "../../lib/cid.ts";
import type { Catalog, Contract } from "../offers/catalog.ts";
import { viewRoom, type Kept } from "../offers/view-cache.ts";

/**
 * Narrows a catalog to what a principal may list, call, read and complete. A principal that may use everything gets the
 * catalog itself, with its serialized lists.
 */
export function permittedCatalog(catalog: Catalog, principal: Principal | undefined): Catalog | Promise<Catalog> {
  if (!principal) return catalog;
  let views = viewsByCatalog.get(catalog);
  if (!views) viewsByCatalog.set(catalog, (views = { keys: new Map(), views: new Map(), pending: new Map() }));
  const cachedKey = views.keys.get(principal.rights);
  if (cachedKey) {
    cachedKey.kept.used = true;
    if (cachedKey.key === ALL) return catalog;
    const cachedView = views.views.get(cachedKey.key);
    if (cachedView) {
      cachedView.kept.used = true;
      return cachedView.view;
    }
  }
  if (!catalog.narrow) return narrowServer(catalog, principal, views);
  return views.pending.get(principal.rights) ?? narrowAggregate(catalog, catalog.narrow, principal, views);
}

/** Cached views of a catalog for principals that may use a part of it. */
interface Views {
  /** The key of a view, by rights. */
  readonly keys: Map<string, { readonly key: string; readonly kept: Kept }>;
  /** Principals that may use the same part of a server share a view and its serialized lists. */
  readonly views: Map<string, { readonly view: Catalog; readonly kept: Kept }>;
  readonly pending: Map<string, Promise<Catalog>>;
}

const viewsByCatalog = new WeakMap<Catalog, Views>();
const ALL = "";

/** Approximate sizes in memory. */
const [KEY_BYTES, VIEW_BYTES, SERVER_BYTES, ITEM_BYTES] = [600, 2_000, 400, 200];

function setKey(views: Views, rights: string, key: string): void {
  views.keys.set(rights, { key, kept: viewRoom.keep(views.keys, rights, KEY_BYTES) });
}

function setView(views: Views, key: string, view: Catalog): void {
  const { servers = 1, problems, contract } = view;
  const { tools, prompts, resources, resourceTemplates, skills = [] } = contract;
  const items = [problems, tools, prompts, resources, resourceTemplates, skills].reduce(
    (sum, { length }) => sum + length,
    0,
  );
  const kept = viewRoom.keep(views.views, key, VIEW_BYTES + servers * SERVER_BYTES + items * ITEM_BYTES);
  views.views.set(key, { view, kept });
}

/** Returns a predicate for the tools of a server that a principal may call. */
export function createCallFilter(
  principal: Principal,
  { server, starting }: Pick<Catalog, "server" | "starting">,
): (tool: string) => boolean {
  const mayStart = starting === undefined || principal.permits(RIGHTS.programs.action, server);
  return (tool) => principal.permits("call", server, tool) && (mayStart || !starting.has(tool));
}

function narrowServer(catalog: Catalog, principal: Principal, views: Views): Catalog {
  const { server, contract } = catalog;
  const calls = createCallFilter(principal, catalog);
  const reads = principal.permits("read", server);
  const tools = contract.tools.filter(({ name }) => calls(name));
  const callsAll = tools.length === contract.tools.length && (tools.length > 0 || principal.permits("call", server));
  if (callsAll && reads) {
    setKey(views, principal.rights, ALL);
    return catalog;
  }
  const key = `${reads} ${callsAll ? "" : rawBlock(JSON.stringify(tools.map(({ name }) => name))).cid}`;
  setKey(views, principal.rights, key);
  const cachedView = views.views.get(key);
  if (cachedView) return cachedView.view;
  const view = createView(catalog, { tools, callsAll, reads });
  setView(views, key, view);
  return view;
}

function narrowAggregate(
  catalog: Catalog,
  narrow: NonNullable<Catalog["narrow"]>,
  principal: Principal,
  views: Views,
): Promise<Catalog> {
  const { rights } = principal;
  const pending = narrow(principal)
    .then((view) => {
      setKey(views, rights, view === catalog ? ALL : rights);
      if (view !== catalog) setView(views, rights, view);
      return view;
    })
    // A failure is not cached: only waiting callers get it.
    .finally(() => views.pending.delete(rights));
  views.pending.set(rights, pending);
  return pending;
}

interface Permitted {
  readonly tools: Catalog["contract"]["tools"];
  readonly callsAll: boolean;
  /** May use everything except tools. */
  readonly reads: boolean;
}

function createView(catalog: Catalog, { tools, callsAll, reads }: Permitted): Catalog {
  const { contract, readsUris = false } = catalog;
  const names = new Set(tools.map(({ name }) => name));
  // An unlisted tool requires the right to call all tools.
  const calls = (name: string): boolean => callsAll || names.has(name);
  return {
    ...catalog,
    contract: {
      ...(reads ? contract : withoutSkills(contract)),
      tools,
      ...(!reads && { resources: [], resourceTemplates: [], prompts: [] }),
    },
    isNarrowed: true,
    readsUris: readsUris && reads,
    tool: (name) => (calls(name) ? catalog.tool(name) : undefined),
    identity: (name) => (calls(name) ? catalog.identity(name) : undefined),
    resource: async (uri) => (reads ? catalog.resource(uri) : undefined),
    servesUri: (uri) => reads && catalog.servesUri(uri),
    prompt: (name) => (reads ? catalog.prompt(name) : undefined),
    completer: (of, argument) => (reads ? catalog.completer(of, argument) : undefined),
    memo: new Map(),
  };
}

function withoutSkills({ skills: _skills, extensions, ...contract }: Contract): Contract {
  const others = Object.entries(extensions ?? {}).filter(([name]) => name !== EXTENSION_SKILLS);
  return { ...contract, ...(others.length > 0 && { extensions: Object.fromEntries(others) }) };
}
