import type { BerthError } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Catalog } from "./catalog.ts";
import type { DirectoryEntry } from "./directory.ts";
import type { CatalogCache } from "./catalog-cache.ts";
import type { HostDependencies, ServerSummary } from "../host.ts";
import { refusalOf } from "./load-catalog.ts";
import { recall } from "./approved.ts";
import { allowedLaunch } from "./load-upstream.ts";

/**
 * Summarizes servers, each with its state. `peek` gives what is loaded; `look` loads it, and keeps it if there is room.
 */
export function createSummarize(
  dependencies: HostDependencies,
  catalogs: Pick<CatalogCache, "peek">,
  look: (tenant: string, name: string) => Catalog | Promise<Catalog>,
): (tenant: string, name: string, listed: DirectoryEntry) => Promise<ServerSummary> {
  const { upstreams } = dependencies;

  return summarize;

  /** A list of servers must not wait for upstreams to start, which may take minutes. */
  async function unknownUpstream(tenant: string, name: string, { entry, refused, enabled }: DirectoryEntry) {
    const uri = entry.upstream;
    if (uri === undefined || refused || !enabled || !upstreams || catalogs.peek(tenant, name)) return undefined;
    allowedLaunch(tenant, name, { uri, secrets: entry.secrets }, dependencies);
    const isKnown =
      upstreams.find(tenant, name, entry)?.observed ?? (await recall(tenant, name, uri, entry, dependencies));
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
      const unknown = await unknownUpstream(tenant, name, listed);
      if (unknown) return { name, ...description, ...unknown };
      const catalog = await look(tenant, name);
      return { name, state: "ready", ...description, catalog, problems: catalog.problems };
    } catch (error) {
      const told = refusalOf(tenant, name, error, dependencies.log);
      const state = told.code === "server_disabled" ? "disabled" : "refused";
      return { name, state, ...description, problems: problemsOf(told) };
    }
  }
}

function problemsOf(error: BerthError): readonly Problem[] {
  const problems = error.data?.["problems"] as readonly Problem[] | undefined;
  if (problems || error.code === "server_disabled") return problems ?? [];
  return [{ code: error.code.replaceAll("_", "-"), message: error.message, severity: "error" }];
}
