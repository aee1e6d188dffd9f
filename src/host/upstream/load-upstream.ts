import { decodeJson, jsonBlock, rawBlock, type Block } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import { BerthError } from "../../errors.ts";
import { isObject, type JsonObject } from "../../json.ts";
import type { Problem } from "../../problem.ts";
import type { Store } from "../../store/store.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Launch } from "../../upstream/launch.ts";
import { parseLauncher } from "../../upstream/launcher.ts";
import type { Activities } from "../activity.ts";
import type { Catalog, Contract, Offer } from "../catalog.ts";
import type { ServerEntry } from "../config/entry.ts";
import { identitiesOf } from "../identity.ts";
import type { ReleaseParts } from "../release.ts";
import { upstreamParts } from "./catalog.ts";
import { curate } from "./curate.ts";
import type { HostedUpstream } from "./hosted.ts";
import type { Hosting } from "./hosting.ts";
import { judge, type Judgement } from "./judge.ts";

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
  const { own, problems } = isEarlier
    ? await observedNow(server, hosted)
    : await approvedNow(tenant, server, hosted, definition, entry, dependencies);

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
    ...upstreamParts(hosted, { contract, originals, optionsOf, activity: dependencies.activities.of(tenant, server) }),
    memo: new Map(),
  };
  return { catalog, blocks: [release, definition, contractBlock, configBlock] };
}

interface Own {
  readonly own: Contract;
  readonly problems: readonly Problem[];
}

async function observedNow(server: string, hosted: HostedUpstream): Promise<Own> {
  if (!hosted.observed) await start(server, hosted);
  const { contract, problems } = hosted.observed!;
  return { own: contract, problems };
}

async function approvedNow(
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  definition: Block,
  { schemaValidation }: ServerEntry,
  { store, writable, isTrial }: UpstreamDependencies,
): Promise<Own> {
  const known = hosted.approved ?? (await readApproved(store, tenant, server, definition.cid));
  if (!known && !hosted.observed) await start(server, hosted);

  const observed = hosted.observed?.contract;
  const judged = judge(known ?? observed!, observed ?? known!, schemaValidation);
  const problems = [...(hosted.observed?.problems ?? []), ...driftProblems(judged)];
  if (judged.refused) throw refused(server, problems);
  if (isTrial) return { own: judged.served, problems };
  hosted.approved = judged.approved;
  const isNew = !known || jsonBlock(known).cid !== jsonBlock(judged.approved).cid;
  if (isNew && writable) await writeApproved(store, tenant, server, definition, judged.approved);
  return { own: judged.served, problems };
}

/** What a person decides on: approves exactly the contract that they were shown. Rejects when it is another by now. */
export async function approveUpstream(
  store: Store,
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  contract: string,
): Promise<void> {
  const { observed, observedCid } = hosted;
  if (!observed || observedCid !== contract)
    throw new BerthError("name_moved", `the server offers ${observedCid ?? "nothing"}`, {
      data: { current: observedCid ?? null },
    });
  await writeApproved(store, tenant, server, rawBlock(hosted.upstream.launch.uri), observed.contract);
  hosted.approved = observed.contract;
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
    if (!(error instanceof UpstreamError)) throw error;
    throw refused(server, [problem(error.code.replaceAll("_", "-"), error.message)], error);
  }
}

function driftProblems({ held, changes, refused }: Judgement): Problem[] {
  const isHeld = ({ name }: ContractChange): boolean => refused || held.includes(name);
  return changes
    .filter((change) => isHeld(change) || change.effect === "breaking")
    .map((change) => driftProblem(change, isHeld(change)));
}

function driftProblem({ subject, name, message }: ContractChange, isHeld: boolean): Problem {
  return {
    code: "contract-changed",
    message: isHeld ? `${message} It is held back until a person approves it.` : message,
    severity: isHeld ? "error" : "warning",
    ...(subject === "tool" && { tool: name }),
  };
}

async function readApproved(
  store: Store,
  tenant: string,
  server: string,
  definition: string,
): Promise<Contract | undefined> {
  const record = await store.name(tenant, "upstream", server);
  const approved = record && (await structure(store, tenant, record.cid));
  if (!isObject(approved) || approved["definition"] !== definition) return undefined;
  return (await structure(store, tenant, String(approved["contract"]))) as Contract | undefined;
}

async function writeApproved(
  store: Store,
  tenant: string,
  server: string,
  definition: Block,
  contract: Contract,
): Promise<void> {
  const contractBlock = jsonBlock(contract);
  const approved = jsonBlock({ definition: definition.cid, contract: contractBlock.cid });
  await store.change(tenant, {
    by: "load",
    put: [definition, contractBlock, approved],
    set: [{ kind: "upstream", name: server, cid: approved.cid }],
  });
}

async function structure(store: Store, tenant: string, cid: string): Promise<unknown> {
  const bytes = await store.content(tenant, cid);
  return bytes && decodeJson(bytes);
}

function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
