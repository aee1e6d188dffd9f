import { jsonBlock, rawBlock, type Block } from "../../lib/cid.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Log } from "../../lib/log.ts";
import type { Grants } from "../../secrets/grants.ts";
import type { Launch } from "../../upstream/launch.ts";
import { nextTurn } from "../../lib/event-loop.ts";
import { parseLauncher } from "../../upstream/launcher.ts";
import type { Activities } from "../calls/activity.ts";
import type { Catalog, Offer } from "./catalog.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { grantProblems } from "../calls/granted.ts";
import { upstreamProblems } from "../serving/tenant-rules.ts";
import { identitiesOf } from "./identity.ts";
import { CallNotes, gateOf, type Observers } from "../calls/observe.ts";
import type { RetryLimits } from "../../outcome/retry.ts";
import type { ReleaseParts } from "./release.ts";
import { upstreamParts } from "./upstream-catalog.ts";
import { approvedNow, type ApprovalDependencies, type Own } from "./approved.ts";
import { curate } from "./curate.ts";
import type { HostedUpstream } from "../serving/hosted.ts";
import { NOTHING_HELD, type ApprovedLimits } from "./judge.ts";
import { problem, refused, start } from "./upstream-refusal.ts";
import { contractBlock } from "./structure-cid.ts";

/** An upstream, ready to serve, and the blocks of its release. */
export interface LoadedUpstream {
  readonly catalog: Catalog;
  readonly blocks: readonly Block[];
}

export interface UpstreamDependencies extends ApprovalDependencies {
  readonly grants?: Grants;
  /** Tells which tenants other than `default` have servers that may start programs; without it, none. */
  readonly mayStartPrograms?: (tenant: string) => boolean;
  readonly activities: Activities;
  readonly observers: Observers;
  readonly log: Log;
  readonly limits: RetryLimits & ApprovedLimits & Pick<Limits, "upstreamCallMs">;
}

export interface MadeOfUpstream {
  readonly uri: string;
  readonly entry: ServerEntry;
  readonly isHidden: (offer: Offer) => boolean;
  /** True for an earlier release: the upstream still offers the same, or the release is gone. */
  readonly isEarlier: boolean;
}

/**
 * Makes an upstream ready to serve. What was approved before is served at once, and the upstream starts when a client
 * uses it; a new one starts now, and what it offers counts as approved.
 */
export async function loadUpstream(
  tenant: string,
  server: string,
  { uri, entry, isHidden, isEarlier }: MadeOfUpstream,
  dependencies: UpstreamDependencies,
): Promise<LoadedUpstream> {
  const { upstreams } = dependencies;
  if (!upstreams) throw refused(server, [problem("no-upstreams", "No servers of others are started here")]);
  const launch = allowedLaunch(tenant, server, { uri, secrets: entry.secrets }, dependencies);
  const grant = dependencies.grants?.of(tenant, server, entry.secrets);
  const hosted = upstreams.of(tenant, server, launch, grant);
  const definition = rawBlock(uri);
  const { own, held, problems } = isEarlier
    ? await observedNow(server, hosted, dependencies.isTrial)
    : await approvedNow(tenant, server, hosted, entry, dependencies);

  await nextTurn();
  const { contract, originals, hidden } = curate(own, entry, isHidden);
  const listed = await contractBlock(contract);
  const configBlock = rawBlock(JSON.stringify(entry.raw));
  const parts: ReleaseParts = {
    definition: definition.cid,
    bundle: null,
    config: configBlock.cid,
    contract: listed.cid,
  };
  const release = jsonBlock(parts);
  const activity = dependencies.activities.of(tenant, server);
  const optionsOf = (tool: string): JsonObject => (Object.hasOwn(entry.options, tool) ? entry.options[tool]! : {});
  const gate = gateOf(server, entry.limits);
  const catalog: Catalog = {
    server,
    release: release.cid,
    contractCid: listed.cid,
    contract,
    hidden,
    problems: [...problems, ...(await grantProblems({ tenant, server, entry }, grant))],
    identity: identitiesOf(contract.tools, (tool) => ({
      upstream: uri,
      tool: originals.get(tool)?.name ?? tool,
      options: optionsOf(tool),
    })),
    ...upstreamParts(hosted, {
      contract,
      originals,
      held,
      optionsOf,
      notesOf: (tool) =>
        new CallNotes({ tenant, server, release: release.cid, tool }, activity, dependencies.observers, gate),
      limits: dependencies.limits,
      warn: (tool, message) => dependencies.log.warn({ tenant, server, tool }, grant?.hide(message) ?? message),
    }),
    memo: new Map(),
  };
  return { catalog, blocks: [release, definition, listed, configBlock] };
}

async function observedNow(server: string, hosted: HostedUpstream, isTrial: boolean): Promise<Own> {
  if (!hosted.observed) await start(server, hosted, isTrial);
  const { contract, problems } = hosted.observed!;
  return { own: contract, held: NOTHING_HELD, problems };
}

/** Throws `server_refused` for an invalid URI, or one that the tenant may not use. */
export function allowedLaunch(
  tenant: string,
  server: string,
  { uri, secrets }: { uri: string; secrets: readonly string[] },
  { mayStartPrograms }: Pick<UpstreamDependencies, "mayStartPrograms">,
): Launch {
  const launch = launchOf(server, uri);
  const problems = upstreamProblems({ tenant, server, secrets }, launch, mayStartPrograms);
  if (problems.length > 0) throw refused(server, problems);
  return launch;
}

export function launchOf(server: string, uri: string): Launch {
  const parsed = parseLauncher(uri);
  const pointer = `/${server.replaceAll("~", "~0").replaceAll("/", "~1")}/upstream`;
  if (parsed.problems)
    throw refused(
      server,
      parsed.problems.map((each) => ({ ...each, pointer })),
    );
  const { target, arguments: given } = parsed.operation;
  if (target || given.texts.length > 0 || Object.keys(given.json).length > 0) {
    const message = "A hosted server's URI says how to start it, and no tool, resource, prompt or argument";
    throw refused(server, [{ ...problem("not-a-server", message), pointer }]);
  }
  return parsed.launch;
}
