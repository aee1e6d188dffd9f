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
  readonly catalog: (journalOf: (tool: ToolContract) => ToolJournal) => Catalog;
  /** The content behind its CIDs. */
  readonly blocks: readonly Block[];
}

/** Adds a server to a host for one tenant, unless the tenant has a server of that name. Its contract never changes. */
export function withBuiltIn(host: Host, tenant: string, server: BuiltInServer, journal: Journal): Host {
  const { name, release } = server;
  const activity = new Activity();
  const released = journal.release({ tenant, server: name, release }, { activity });
  const catalog = server.catalog((tool) => released.tool(tool));
  const { description } = catalog.contract;
  const summary: ServerSummary = {
    name,
    isBuiltIn: true,
    state: "ready",
    ...(description !== undefined && { description }),
    catalog,
    problems: [],
  };
  const isHere = (asked: string): boolean => asked === tenant && !host.directory(asked)?.servers.has(name);
  const isIt = (asked: string, of: string): boolean => of === name && isHere(asked);
  return {
    ...host,
    server: (of, asked) => (isIt(of, asked) ? catalog : host.server(of, asked)),
    async overview(of, names) {
      const servers = await host.overview(of, names);
      if (!isHere(of) || !names.includes(name)) return servers;
      const { catalog: _, ...short } = summary;
      const own = { ...short, tools: catalog.contract.tools.map((tool) => tool.name), starting: catalog.starting };
      return [...servers, own].sort((one, other) => names.indexOf(one.name) - names.indexOf(other.name));
    },
    summary: (of, asked, options) => (isIt(of, asked) ? Promise.resolve(summary) : host.summary(of, asked, options)),
    has: (of, asked) => isIt(of, asked) || host.has(of, asked),
    names(of) {
      const names = host.names(of);
      if (!isHere(of)) return names;
      const next = names.findIndex((each) => each > name);
      return names.toSpliced(next < 0 ? names.length : next, 0, name);
    },
    activity: (of, asked) => (isIt(of, asked) ? activity : host.activity(of, asked)),
    releases: (of, asked) => (isIt(of, asked) ? Promise.resolve([]) : host.releases(of, asked)),
    async content(of, cid) {
      const own = isHere(of) ? server.blocks.find((block) => block.cid === cid) : undefined;
      return own?.bytes ?? host.content(of, cid);
    },
    watch: (of, asked, listener) => (isIt(of, asked) ? () => {} : host.watch(of, asked, listener)),
    release: (of, asked, release) =>
      isIt(of, asked)
        ? Promise.resolve(release === catalog.release ? catalog : undefined)
        : host.release(of, asked, release),
  };
}
