import type { Block, Cid } from "../../lib/cid.ts";
import type { ServerSummary } from "../catalog/overview.ts";
import type { Host } from "../host.ts";
import { Activity } from "../journal/activity.ts";
import type { Journal, ToolJournal } from "../journal/journal.ts";
import type { Catalog, ToolContract } from "../offers/catalog.ts";

/** A server that is part of Berth. */
export interface BuiltInServer {
  readonly name: string;
  readonly release: Cid;
  readonly catalog: (toolJournal: (tool: ToolContract) => ToolJournal) => Catalog;
  /** The content behind its CIDs. */
  readonly blocks: readonly Block[];
}

/** Adds a server to a host for one tenant, unless the tenant has a server of that name. Its contract never changes. */
export function withBuiltIn(host: Host, ownTenant: string, server: BuiltInServer, journal: Journal): Host {
  const { name: ownName, release } = server;
  const activity = new Activity();
  const released = journal.release({ tenant: ownTenant, server: ownName, release }, { activity });
  const catalog = server.catalog((tool) => released.tool(tool));
  const { description } = catalog.contract;
  const summary: ServerSummary = {
    name: ownName,
    isBuiltIn: true,
    state: "ready",
    ...(description !== undefined && { description }),
    catalog,
    problems: [],
  };
  const isAdded = (tenant: string): boolean => tenant === ownTenant && !host.directory(tenant)?.servers.has(ownName);
  const isIt = (tenant: string, name: string): boolean => name === ownName && isAdded(tenant);
  return {
    ...host,
    server: (tenant, name) => (isIt(tenant, name) ? catalog : host.server(tenant, name)),
    async overview(tenant, names) {
      const servers = await host.overview(tenant, names);
      if (!isAdded(tenant) || !names.includes(ownName)) return servers;
      const { catalog: _, ...short } = summary;
      const own = { ...short, tools: catalog.contract.tools.map((tool) => tool.name), starting: catalog.starting };
      return [...servers, own].sort((one, other) => names.indexOf(one.name) - names.indexOf(other.name));
    },
    summary: (tenant, name, options) =>
      isIt(tenant, name) ? Promise.resolve(summary) : host.summary(tenant, name, options),
    has: (tenant, name) => isIt(tenant, name) || host.has(tenant, name),
    names(tenant) {
      const names = host.names(tenant);
      if (!isAdded(tenant)) return names;
      const next = names.findIndex((each) => each > ownName);
      return names.toSpliced(next < 0 ? names.length : next, 0, ownName);
    },
    activity: (tenant, name) => (isIt(tenant, name) ? activity : host.activity(tenant, name)),
    releases: (tenant, name) => (isIt(tenant, name) ? Promise.resolve([]) : host.releases(tenant, name)),
    async content(tenant, cid) {
      const own = isAdded(tenant) ? server.blocks.find((block) => block.cid === cid) : undefined;
      return own?.bytes ?? host.content(tenant, cid);
    },
    watch: (tenant, name, listener) => (isIt(tenant, name) ? () => {} : host.watch(tenant, name, listener)),
    release: (tenant, name, release) =>
      isIt(tenant, name)
        ? Promise.resolve(release === catalog.release ? catalog : undefined)
        : host.release(tenant, name, release),
  };
}
