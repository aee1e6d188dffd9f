import type { Cid } from "../../lib/cid.ts";
import type { BerthError } from "../../lib/errors.ts";
import { mapYielding } from "../../lib/event-loop.ts";
import { listedProblems, type Problem } from "../../lib/problem.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import type { Catalog } from "../offers/catalog.ts";
import type { ApprovalDependencies } from "./approvals.ts";
import type { CatalogCache } from "./catalog-cache.ts";
import { toRefusal } from "./load-catalog.ts";
import { checkLaunch, type UpstreamDependencies } from "./upstream-catalog.ts";

export interface ServerSummary {
  readonly name: string;
  /** Part of Berth: there is no definition or entry to edit. */
  readonly isBuiltIn?: boolean;
  /** `unstarted`, `starting`: an upstream whose contract is not known yet; calls wait. */
  readonly state: "ready" | "disabled" | "refused" | "unstarted" | "starting";
  readonly description?: string;
  readonly catalog?: Catalog;
  readonly problems: readonly Problem[];
}

/** A short summary of a server, for lists. */
export interface Overview {
  readonly name: string;
  readonly state: ServerSummary["state"];
  readonly description?: string;
  readonly problems: readonly Problem[];
  readonly isBuiltIn?: boolean;
  /** Names of tools, in the order of the contract. */
  readonly tools: readonly string[];
  /** Language of the definition, if known. */
  readonly language?: Catalog["language"];
  /** The tools that start programs. */
  readonly starting?: Catalog["starting"];
}

interface Servers {
  /** The catalog, if loaded. */
  readonly loaded: (name: string) => Catalog | undefined;
  readonly summarize: (name: string, listed: DirectoryEntry) => Promise<ServerSummary>;
}

/**
 * Caches overviews of served servers while their definition and entry are unchanged. Otherwise each listing would load
 * the servers whose catalogs do not fit in memory.
 */
export class Overviews {
  readonly #cached = new WeakMap<DirectoryEntry, { overview: Overview; release: Cid; contract: Cid }>();

  async read(
    servers: readonly { readonly name: string; readonly listed: DirectoryEntry }[],
    { loaded, summarize }: Servers,
  ): Promise<Overview[]> {
    return mapYielding(servers, async ({ name, listed }) => {
      const cached = this.#cached.get(listed);
      const catalog = cached && loaded(name);
      const isSame = !catalog || (catalog.release === cached.release && catalog.contractCid === cached.contract);
      return cached && isSame ? cached.overview : this.#cache(listed, await summarize(name, listed));
    });
  }

  /** Call when a server may have changed with the same entry. */
  forget(listed: DirectoryEntry): void {
    this.#cached.delete(listed);
  }

  /** Carries over the overviews of entries that are equal in the new directory. */
  follow(before: ReadonlyMap<string, DirectoryEntry> | undefined, now: ReadonlyMap<string, DirectoryEntry>): void {
    for (const [name, listed] of now) {
      const earlier = before?.get(name);
      if (earlier === listed) continue;
      const cached = earlier && this.#cached.get(earlier);
      if (cached && JSON.stringify(earlier) === JSON.stringify(listed)) this.#cached.set(listed, cached);
    }
  }

  #cache(listed: DirectoryEntry, { catalog, ...summary }: ServerSummary): Overview {
    const tools = catalog?.contract.tools ?? [];
    const description = summary.description ?? (tools.length === 1 ? tools[0]!.description : undefined);
    const overview = {
      tools: tools.map(({ name }) => name),
      ...summary,
      problems: listedProblems(summary.problems),
      ...(description !== undefined && { description: description }),
      ...(catalog?.language && { language: catalog.language }),
      starting: catalog?.starting,
    };
    // A refused server may be served next time.
    if (catalog) this.#cached.set(listed, { overview, release: catalog.release, contract: catalog.contractCid });
    return overview;
  }
}

/** Summarizes a server. `look` loads it without evicting others. */
export function createSummarize(
  dependencies: Omit<ApprovalDependencies, "isTrial"> &
    Pick<UpstreamDependencies, "approvals" | "mayStartPrograms" | "log">,
  catalogs: Pick<CatalogCache, "peek">,
  inspect: (tenant: string, name: string) => Catalog | Promise<Catalog>,
): (tenant: string, name: string, listed: DirectoryEntry) => Promise<ServerSummary> {
  const { upstreams, approvals } = dependencies;

  return summarize;

  /** Lists must not wait for upstreams to start, which may take minutes. */
  async function unloadedUpstream(tenant: string, name: string, { entry, refused, enabled }: DirectoryEntry) {
    const uri = entry.upstream;
    if (uri === undefined || refused || !enabled || !upstreams || catalogs.peek(tenant, name)) return undefined;
    checkLaunch(tenant, name, { uri, secrets: entry.secrets }, dependencies);
    const isKnown =
      upstreams.find(tenant, name, entry)?.observed ??
      (await approvals?.recall(tenant, name, uri, entry, dependencies));
    if (isKnown) return undefined;
    const { state, failure } = upstreams.state(tenant, name, entry).health;
    if (state !== "failed") {
      return { state: state === "starting" ? ("starting" as const) : ("unstarted" as const), problems: [] };
    }
    const problems = [{ code: "upstream-not-started", message: failure ?? "", severity: "error" as const }];
    return { state: "refused" as const, problems };
  }

  async function summarize(tenant: string, name: string, listed: DirectoryEntry): Promise<ServerSummary> {
    const { entry } = listed;
    const description = entry.description === undefined ? {} : { description: entry.description };
    try {
      const unknown = await unloadedUpstream(tenant, name, listed);
      if (unknown) return { name, ...description, ...unknown };
      const catalog = await inspect(tenant, name);
      return { name, state: "ready", ...description, catalog, problems: catalog.problems };
    } catch (error) {
      const refusal = toRefusal(tenant, name, error, dependencies.log);
      const state = refusal.code === "server_disabled" ? "disabled" : "refused";
      return { name, state, ...description, problems: errorProblems(refusal) };
    }
  }
}

function errorProblems(error: BerthError): readonly Problem[] {
  const problems = error.data?.["problems"] as readonly Problem[] | undefined;
  if (problems || error.code === "server_disabled") return problems ?? [];
  return [{ code: error.code.replaceAll("_", "-"), message: error.message, severity: "error" }];
}
