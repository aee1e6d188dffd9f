import { type Config, packageVersion } from "../config.ts";
import type { Checks } from "../host/checks/checks.ts";
import { longReader } from "../host/checks/long-reader.ts";
import type { OpenUpstream } from "../host/upstreams/hosted.ts";
import { Hosting, type HostingOptions } from "../host/upstreams/hosting.ts";
import type { Log } from "../lib/log.ts";
import { MessageBudgets, programBacklog, unfinishedUpstream } from "../lib/message-budget.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import type { Limits } from "../limits/limits.ts";
import { openPublicSender, openSender } from "../network/public-fetch.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import type { MakeFolder } from "../processes/work-folders.ts";
import { hostedVariables } from "../upstream/launch/launch.ts";
import type { ChildBudgets } from "../upstream/transport/child.ts";
import { Upstream } from "../upstream/upstream.ts";

/**
 * How upstreams are reached, as a part of the composition root: what they get of this machine depends on their tenant.
 */
const clientInfo = { name: "berth", version: packageVersion() };

interface UpstreamParts extends Omit<Starting, "roomsOf">, Pick<HostingOptions, "nodes" | "limitsOf"> {
  readonly log: Log;
}

/** The upstreams that tenants host, and how features reach others. */
export function openUpstreams(config: Config, { nodes, limitsOf, log, ...parts }: UpstreamParts) {
  const { limits } = config;
  const starting = { ...parts, roomsOf: childRoomsOf(limits) };
  const open = hostedOpener(limits, starting);
  const upstreams = new Hosting({ nodes, open, limitsOf, limits, log });
  const openUpstream: OpenUpstream = (launch, listener) =>
    open(launch, listener, { tenant: DEFAULT_TENANT, grant: undefined });
  return { upstreams, openUpstream, close: () => upstreams.close() };
}

interface Starting {
  readonly start: Spawn;
  readonly makeFolder: MakeFolder;
  readonly checks: Checks;
  readonly roomsOf: (tenant: string) => ChildBudgets;
}

/** The memory that messages between Berth and upstream programs may take, by tenant. */
function childRoomsOf(limits: Limits): (tenant: string) => ChildBudgets {
  const unfinished = new MessageBudgets(unfinishedUpstream, limits);
  const backlog = new MessageBudgets(programBacklog, limits);
  return (tenant) => ({ unfinished: unfinished.of(tenant), backlog: backlog.of(tenant) });
}

/**
 * Hosted upstreams get their secrets. Those of `default` also get what they request of the environment, and may be
 * anywhere; every other tenant's must be at public addresses.
 */
function hostedOpener(limits: Limits, { start, makeFolder, checks, roomsOf }: Starting): HostingOptions["open"] {
  const { env } = process;
  const [own, open] = [openSender(), openPublicSender()];
  return (launch, listener, { tenant, grant }) => {
    const isOwn = tenant === DEFAULT_TENANT;
    return new Upstream(launch, {
      env,
      folder: process.cwd(),
      clientInfo,
      limits,
      start,
      makeFolder,
      long: longReader(checks, tenant),
      rooms: roomsOf(tenant),
      ...listener,
      send: isOwn ? own : open,
      ...(grant && {
        hide: (value) => grant.redactor.hideIn(value),
        hideWhole: (...text) => grant.redactor.hideWhole(...text),
      }),
      variables: async () =>
        hostedVariables(isOwn ? env : {}, { names: grant?.names ?? [], values: (await grant?.all()) ?? {} }),
    });
  };
}
