import type { Principal } from "../access/principal.ts";
import { RIGHTS } from "../access/rights.ts";
import type { Catalog } from "./catalog.ts";

/**
 * What of a catalog a principal may use, as a catalog: its lists show that alone, and nothing else of it can be
 * called, read or completed. It is the catalog itself for whoever may use all of it, so that lists stay what was
 * written once.
 */
export function permittedCatalog(catalog: Catalog, principal: Principal | undefined): Catalog | Promise<Catalog> {
  if (!principal) return catalog;
  const known = viewsOf.get(catalog);
  const views = known ?? new WeakMap<Principal, Catalog | Promise<Catalog>>();
  if (!known) viewsOf.set(catalog, views);
  let view = views.get(principal);
  if (view) return view;
  view = catalog.narrow ? catalog.narrow(principal) : narrowed(catalog, principal);
  views.set(principal, view);
  // Whoever asked hears of a failure, and the next one tries again.
  if (view instanceof Promise) {
    view.then(
      (made) => views.set(principal, made),
      () => views.delete(principal),
    );
  }
  return view;
}

/** Which tools of a server a principal may call, at its own address and at the one of all servers. */
export function callableBy(
  principal: Principal,
  { server, starting }: Pick<Catalog, "server" | "starting">,
): (tool: string) => boolean {
  const mayStart = starting === undefined || principal.permits(RIGHTS.programs.action, server);
  return (tool) => principal.permits("call", server, tool) && (mayStart || !starting.has(tool));
}

/** A call costs two look-ups. */
const viewsOf = new WeakMap<Catalog, WeakMap<Principal, Catalog | Promise<Catalog>>>();

function narrowed(catalog: Catalog, principal: Principal): Catalog {
  const { server, contract } = catalog;
  const calls = callableBy(principal, catalog);
  const reads = principal.permits("read", server);
  const tools = contract.tools.filter(({ name }) => calls(name));
  const callsAll = tools.length === contract.tools.length && (tools.length > 0 || principal.permits("call", server));
  if (callsAll && reads) return catalog;
  // Principals that may use the same share one view, and the lists that are written for it.
  const key = `permitted:${reads}:${callsAll ? "" : JSON.stringify(tools.map(({ name }) => name))}`;
  let view = catalog.memo.get(key) as Catalog | undefined;
  if (!view) catalog.memo.set(key, (view = viewOf(catalog, { tools, callsAll, reads })));
  return view;
}

interface Permitted {
  readonly tools: Catalog["contract"]["tools"];
  readonly callsAll: boolean;
  /** Everything that is no tool. */
  readonly reads: boolean;
}

function viewOf(catalog: Catalog, { tools, callsAll, reads }: Permitted): Catalog {
  const { contract, readsUris = false } = catalog;
  const names = new Set(tools.map(({ name }) => name));
  // One that no list shows is called by those who may call all.
  const calls = (name: string): boolean => callsAll || names.has(name);
  return {
    ...catalog,
    contract: { ...contract, tools, ...(!reads && { resources: [], resourceTemplates: [], prompts: [] }) },
    isNarrowed: true,
    readsUris: readsUris && reads,
    tool: (name) => (calls(name) ? catalog.tool(name) : undefined),
    identity: (name) => (calls(name) ? catalog.identity(name) : undefined),
    resource: async (uri) => (reads ? catalog.resource(uri) : undefined),
    gives: (uri) => reads && catalog.gives(uri),
    prompt: (name) => (reads ? catalog.prompt(name) : undefined),
    completer: (of, argument) => (reads ? catalog.completer(of, argument) : undefined),
    memo: new Map(),
  };
}
