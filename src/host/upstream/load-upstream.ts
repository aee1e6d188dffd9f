import { jsonBlock, rawBlock, type Block } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import { BerthError } from "../../errors.ts";
import type { JsonObject } from "../../json.ts";
import type { Limits } from "../../config.ts";
import type { Log } from "../../log.ts";
import type { Problem } from "../../problem.ts";
import type { Store } from "../../store/store.ts";
import type { Launch } from "../../upstream/launch.ts";
import { parseLauncher } from "../../upstream/launcher.ts";
import type { Activities } from "../activity.ts";
import type { Catalog, Contract, Offer, ToolContract } from "../catalog.ts";
import type { ServerEntry } from "../config/entry.ts";
import { identitiesOf } from "../identity.ts";
import type { RetryLimits } from "../../outcome/persist.ts";
import type { ReleaseParts } from "../release.ts";
import { upstreamParts } from "./catalog.ts";
import { curate } from "./curate.ts";
import type { HostedUpstream } from "./hosted.ts";
import type { Hosting } from "./hosting.ts";
import { judge, type Judgement } from "./judge.ts";
import { readContract, readRemembered, writeRemembered, type Remembered } from "./remembered.ts";

/** A server of others, ready to serve, and the blocks of its release. */
export interface LoadedUpstream {
  readonly catalog: Catalog;
  readonly blocks: readonly Block[];
}

export interface UpstreamDependencies {
  readonly store: Store;
  readonly writable: boolean;
  /** Undefined where nothing of others is started. */
  readonly upstreams?: Hosting;
  /** Nothing of it is remembered: somebody only looks what would be. */
  readonly isTrial: boolean;
  readonly activities: Activities;
  readonly log: Log;
  readonly limits: RetryLimits & Pick<Limits, "upstreamCallMs">;
}

export interface MadeOfUpstream {
  readonly uri: string;
  readonly entry: ServerEntry;
  readonly isHidden: (offer: Offer) => boolean;
  /** An earlier release, which is what it was or is not there any more. */
  readonly isEarlier: boolean;
}

/**
 * Makes a server of others ready to serve. What was approved of it before is served at once, and the server is started
 * when somebody uses it; one that is not known yet is started now, and what it offers counts as approved.
 */
export async function loadUpstream(
  tenant: string,
  server: string,
  { uri, entry, isHidden, isEarlier }: MadeOfUpstream,
  dependencies: UpstreamDependencies,
): Promise<LoadedUpstream> {
  const { upstreams } = dependencies;
  if (!upstreams) throw refused(server, [problem("no-upstreams", "No servers of others are started here")]);
  const hosted = upstreams.of(tenant, server, launchOf(server, uri));
  const definition = rawBlock(uri);
  const { own, held, problems } = isEarlier
    ? await observedNow(server, hosted)
    : await approvedNow(tenant, server, hosted, entry, dependencies);

  const { contract, originals, hidden } = curate(own, entry, isHidden);
  const contractBlock = jsonBlock(contract);
  const configBlock = rawBlock(JSON.stringify(entry.raw));
  const parts: ReleaseParts = {
    definition: definition.cid,
    bundle: null,
    config: configBlock.cid,
    contract: contractBlock.cid,
  };
  const release = jsonBlock(parts);
  const optionsOf = (tool: string): JsonObject => (Object.hasOwn(entry.options, tool) ? entry.options[tool]! : {});
  const catalog: Catalog = {
    server,
    release: release.cid,
    contractCid: contractBlock.cid,
    contract,
    hidden,
    problems,
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
      activity: dependencies.activities.of(tenant, server),
      limits: dependencies.limits,
      warn: (tool, message) => dependencies.log.warn({ tenant, server, tool }, message),
    }),
    memo: new Map(),
  };
  return { catalog, blocks: [release, definition, contractBlock, configBlock] };
}

interface Own {
  readonly own: Contract;
  readonly held: readonly ToolContract[];
  readonly problems: readonly Problem[];
}

async function observedNow(server: string, hosted: HostedUpstream): Promise<Own> {
  if (!hosted.observed) await start(server, hosted);
  const { contract, problems } = hosted.observed!;
  return { own: contract, held: [], problems };
}

async function approvedNow(
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  entry: ServerEntry,
  dependencies: UpstreamDependencies,
): Promise<Own> {
  const { store, writable, isTrial } = dependencies;
  const { uri } = hosted.upstream.launch;
  const known = await recall(tenant, server, uri, entry, dependencies);
  if (!known && !hosted.observed) await start(server, hosted);

  const seen = hosted.observed?.contract;
  const judged = judge(known?.approved ?? seen!, seen ?? known!.observed, entry.schemaValidation);
  const problems = [...(hosted.observed?.problems ?? []), ...driftProblems(judged)];
  if (!isTrial) {
    const remembered: Remembered = {
      approved: judged.refused ? known!.approved : judged.approved,
      observed: seen ?? known!.observed,
      locked: entry.contractCid ?? null,
    };
    hosted.remembered = remembered;
    if (writable) await writeRemembered(store, tenant, server, { uri, remembered, by: "load" });
  }
  if (judged.refused) {
    // Refused for what it once was: whether it still is, only the server itself can tell.
    if (!seen && !isTrial) hosted.upstream.start().catch(() => {});
    throw refused(server, problems);
  }
  return { own: judged.served, held: judged.held, problems };
}

/**
 * What is known of a server without starting it: what was approved of it and when it was last seen, or what the image
 * has locked, until a person approves something else.
 */
export async function recall(
  tenant: string,
  server: string,
  uri: string,
  { contractCid }: ServerEntry,
  { store, writable, upstreams }: Pick<UpstreamDependencies, "store" | "writable" | "upstreams">,
): Promise<Remembered | undefined> {
  const inMemory = writable ? undefined : upstreams?.find(tenant, server, uri)?.remembered;
  const remembered = inMemory ?? (await readRemembered(store, tenant, server, uri));
  if (contractCid === undefined || remembered?.locked === contractCid) return remembered;
  const locked = await readContract(store, tenant, contractCid);
  return locked ? { approved: locked, observed: locked, locked: contractCid } : remembered;
}

/** What a person decides on: approves exactly the contract that they were shown. Rejects when it is another by now. */
export async function approveUpstream(
  store: Store,
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  { contract, by }: { contract: string; by: string },
): Promise<void> {
  const { remembered } = hosted;
  const observed = hosted.observed?.contract ?? remembered?.observed;
  const current = observed && jsonBlock(observed).cid;
  if (!observed || current !== contract) {
    const detail = current === undefined ? "nothing is known of the server yet" : `the server offers ${current} now`;
    throw new BerthError("name_moved", detail, { data: { current: current ?? null } });
  }
  const approved = { approved: observed, observed, locked: remembered?.locked ?? null };
  await writeRemembered(store, tenant, server, { uri: hosted.upstream.launch.uri, remembered: approved, by });
  hosted.remembered = approved;
}

/** Nothing where the message says it itself. */
function subjectText({ subject, name, message }: ContractChange): string {
  if (subject === "server") return "Of the server itself: ";
  return message.includes(`"${name}"`) ? "" : `Of the ${subject} "${name}": `;
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

async function start(server: string, hosted: HostedUpstream): Promise<void> {
  try {
    await hosted.upstream.start();
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    // Without its data: a wrong launcher URI is shown there, and may hold what clients must not see.
    throw refused(server, [problem(error.code.replaceAll("_", "-"), error.message)], error);
  }
}

function driftProblems({ held, changes, refused }: Judgement): Problem[] {
  const names = new Set(held.map(({ name }) => name));
  const isHeld = ({ subject, name }: ContractChange): boolean =>
    subject === "server" || (subject === "tool" && names.has(name));
  return changes
    .filter((change) => (refused && change.effect !== "compatible") || isHeld(change) || change.effect === "breaking")
    .map((change) => driftProblem(change, refused || isHeld(change)));
}

function driftProblem(change: ContractChange, isHeld: boolean): Problem {
  const { subject, name } = change;
  const message = `${subjectText(change)}${change.message}`;
  return {
    code: "contract-changed",
    message: isHeld ? `${message} It is held back until a person approves it.` : message,
    severity: isHeld ? "error" : "warning",
    ...(subject === "tool" && { tool: name }),
  };
}

function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
