import { readAppUri } from "../../contract/apps.ts";
import type { Contract, ToolContract } from "../../contract/contract.ts";
import { skillFinder, skillUris } from "../../contract/skills.ts";
import { isOwnUri } from "../../entry/address.ts";
import { requiresConsent, consentProblems } from "../../entry/consent-field.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { retentionProblems } from "../../entry/grants-fields.ts";
import type { ConfiguredTool } from "../../entry/tool-fields.ts";
import { type Cid, jsonBlock, rawBlock } from "../../lib/cid.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { printable } from "../../lib/printable.ts";
import type { Problem } from "../../lib/problem.ts";
import type { SharedLimits } from "../../lib/shared-limits.ts";
import type { Limits } from "../../limits/limits.ts";
import type { RetryLimits } from "../../outcome/retry.ts";
import type { Grants } from "../../secrets/grants.ts";
import type { Launch } from "../../upstream/launch/launch.ts";
import { parseServer } from "../../upstream/launch/launcher-uri.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { Consent, ConsentPort } from "../calls/consent.ts";
import { grantProblems } from "../calls/granted.ts";
import {
  type UpstreamToolParts,
  withheldFile,
  withheldPrompt,
  withheldTool,
  supportsTasks,
  upstreamCompleter,
  upstreamPrompt,
  upstreamResource,
  upstreamTool,
} from "../calls/upstream-offers.ts";
import { createUriTester } from "../calls/uris/find-resource.ts";
import { upstreamProblems } from "../directory/tenant-rules.ts";
import type { Journal, ToolJournal } from "../journal/journal.ts";
import type { Catalog, Offer, Resource } from "../offers/catalog.ts";
import { contractBlock } from "../offers/contract-cids.ts";
import { identitiesOf } from "../offers/identity.ts";
import type { HostedUpstream } from "../upstreams/hosted.ts";
import { type Held, NOTHING_HELD } from "../upstreams/remembered.ts";
import type { ApprovalDependencies, ApprovalPort, ApprovedContract } from "./approvals.ts";
import { type ReleaseParts, excluding } from "./release.ts";

export interface UpstreamDependencies extends ApprovalDependencies {
  /** Without it, servers get no secrets. */
  readonly grants?: Grants;
  /** True for tenants whose servers may start programs; by default, only those of `default` may. */
  readonly mayStartPrograms?: (tenant: string) => boolean;
  /** Asks users for consent to calls of the tools in an entry's "consent". */
  readonly consents: ConsentPort;
  /** Undefined without the feature "drift": then upstreams whose entry withholds changes are refused. */
  readonly approvals: ApprovalPort | undefined;
  readonly journal: Journal;
  /** Shares limits with other processes; by default, each has its own. */
  readonly sharedLimits?: SharedLimits;
  readonly log: Log;
  readonly limits: RetryLimits & Pick<Limits, "upstreamCallMs" | "retainedCallDays">;
}

interface UpstreamInput {
  readonly uri: string;
  readonly entry: ServerEntry;
  readonly isHidden: (offer: Offer) => boolean;
  /** An earlier release, which is available only while the upstream still has the same contract. */
  readonly isEarlier: boolean;
}

/**
 * Loads an upstream. If a contract is approved, it is served immediately, and the upstream starts on first use. A new
 * upstream starts now, and its contract counts as approved.
 */
export async function loadUpstream(
  tenant: string,
  server: string,
  { uri, entry, isHidden, isEarlier }: UpstreamInput,
  dependencies: UpstreamDependencies,
) {
  const { upstreams, approvals } = dependencies;
  if (!upstreams) throw refused(server, [problem("no-upstreams", "This Berth starts no upstreams")]);
  if (!approvals && entry.hold.changes !== "none") throw refused(server, [MISSING_FEATURE]);
  const launch = checkLaunch(tenant, server, { uri, secrets: entry.secrets }, dependencies);
  const grant = dependencies.grants?.of(tenant, server, entry.secrets);
  const hosted = upstreams.of(tenant, server, launch, grant, entry.runs);
  const definition = rawBlock(uri);
  const { own, held, skills, problems } =
    isEarlier || !approvals
      ? await observeContract(server, hosted, dependencies.isTrial)
      : await approvals.readApproved(tenant, server, hosted, entry, dependencies);

  await yieldToCalls();
  const { contract, originals, hidden } = applyEntry(own, entry, isHidden);
  const listed = await contractBlock(contract);
  const configBlock = rawBlock(JSON.stringify(entry.raw));
  const parts: ReleaseParts = {
    definition: definition.cid,
    bundle: null,
    config: configBlock.cid,
    contract: listed.cid,
  };
  const release = jsonBlock(parts);
  const toolOptions = (tool: string): JsonObject => (Object.hasOwn(entry.options, tool) ? entry.options[tool]! : {});
  const journal = dependencies.journal.release(
    { tenant, server, release: release.cid },
    { entry, grant, sharedLimits: dependencies.sharedLimits },
  );
  const catalog: Catalog = {
    server,
    release: release.cid,
    contractCid: listed.cid,
    contract,
    ...(entry.icons.length > 0 && { icons: entry.icons }),
    hidden,
    functions: own.tools.map(({ name }) => name),
    problems: [
      ...problems,
      ...(await grantProblems({ tenant, server, entry }, grant)),
      ...retentionProblems(server, entry, dependencies.limits),
      ...consentProblems(server, entry, [...contract.tools, ...held.tools, ...hidden]),
    ],
    identity: identitiesOf(contract.tools, (tool) => ({
      upstream: uri,
      tool: originals.get(tool)?.name ?? tool,
      options: toolOptions(tool),
    })),
    ...upstreamParts(hosted, {
      contract,
      originals,
      held,
      skills,
      toolOptions,
      toolJournal: (tool) => journal.tool(tool),
      toolConsent: ({ name, inputSchema }, original) =>
        requiresConsent(entry, name, original)
          ? dependencies.consents.forTool({ ...journal.release, tool: name }, inputSchema)
          : undefined,
      limits: dependencies.limits,
      warn: (tool, message) =>
        dependencies.log.warn({ tenant, server, tool }, grant?.redactor.hide(message) ?? message),
    }),
    memo: new Map(),
  };
  return { catalog, blocks: [release, definition, listed, configBlock] };
}

const MISSING_FEATURE = problem(
  "missing-feature",
  'Withholding changes of an upstream needs the feature "drift", which this Berth does not have',
);

async function observeContract(server: string, hosted: HostedUpstream, isTrial: boolean): Promise<ApprovedContract> {
  if (!hosted.observed) await start(server, hosted, isTrial);
  const { contract: own, problems } = hosted.observed!;
  return { own, held: NOTHING_HELD, skills: own.skills ?? [], problems };
}

/** Rejects with `server_refused` if the upstream cannot be started. A trial shows stderr, because it requires the right to edit. */
export async function start(server: string, hosted: HostedUpstream, isTrial: boolean): Promise<void> {
  try {
    await hosted.start();
  } catch (error) {
    // These errors are temporary and not the fault of the upstream.
    if (!(error instanceof BerthError) || TEMPORARY_ERRORS.has(error.code)) throw error;
    // Omit the data of the error: it shows the launcher URI, which may contain secrets.
    const reported = problem(error.code.replaceAll("_", "-"), error.message);
    const stderr = isTrial && error instanceof UpstreamError ? printable(error.stderr.slice(-STDERR_UNITS_MAX)) : "";
    throw refused(server, [stderr === "" ? reported : { ...reported, frame: stderr }], error);
  }
}

/** The end of stderr usually has the cause. */
const STDERR_UNITS_MAX = 1_500;

const TEMPORARY_ERRORS: ReadonlySet<ErrorCode> = new Set(["too_many_processes", "no_descriptors", "check_failed"]);

export function refused(server: string, problems: readonly Problem[], cause?: unknown): BerthError {
  const message = problems[0]?.message ?? "it cannot be reached";
  return new BerthError("server_refused", `"${server}": ${message}`, { data: { problems }, cause });
}

export function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}

/** Throws `server_refused` for an invalid URI, or one that the tenant may not use. */
export function checkLaunch(
  tenant: string,
  server: string,
  { uri, secrets }: { uri: string; secrets: readonly string[] },
  { mayStartPrograms }: Pick<UpstreamDependencies, "mayStartPrograms">,
): Launch {
  const launch = parseLaunch(server, uri);
  const problems = upstreamProblems({ tenant, server, secrets }, launch, mayStartPrograms);
  if (problems.length > 0) throw refused(server, problems);
  return launch;
}

function parseLaunch(server: string, uri: string): Launch {
  const parsed = parseServer(uri);
  const pointer = `/${server.replaceAll("~", "~0").replaceAll("/", "~1")}/upstream`;
  if (parsed.problems)
    throw refused(
      server,
      parsed.problems.map((each) => ({ ...each, pointer })),
    );
  return parsed.launch;
}

interface ServedUpstream extends Pick<UpstreamToolParts, "limits">, Pick<ApprovedContract, "skills"> {
  readonly contract: Contract;
  readonly originals: ReadonlyMap<string, ToolContract>;
  /** Withheld items. They are not listed, and calls fail with an error that explains why. */
  readonly held: Held;
  /** Options in the context of a tool's calls, by the name that clients use. */
  readonly toolOptions: (tool: string) => JsonObject;
  readonly toolJournal: (tool: ToolContract) => ToolJournal;
  /** `original` is the name at the upstream. */
  readonly toolConsent: (tool: ToolContract, original: string) => Consent | undefined;
  /** Called for contradictory results. */
  readonly warn: (tool: string, message: string) => void;
}

/** The parts of a catalog that send requests to the upstream. */
function upstreamParts(
  hosted: HostedUpstream,
  { contract, originals, held, skills, toolOptions: optionsOf, toolJournal, toolConsent, limits, warn }: ServedUpstream,
): Pick<Catalog, "tool" | "resource" | "servesUri" | "hasUnlisted" | "prompt" | "completer"> {
  const createParts = (tool: ToolContract): UpstreamToolParts => ({
    hosted,
    original: originals.get(tool.name) ?? tool,
    isTaskTool: supportsTasks(contract, originals.get(tool.name) ?? tool),
    configured: optionsOf(tool.name),
    journal: toolJournal(tool),
    consent: toolConsent(tool, originals.get(tool.name)?.name ?? tool.name),
    limits,
    warn: (message) => warn(tool.name, message),
  });
  const tool = lazyByName(
    [contract.tools, (tool) => upstreamTool(tool, createParts(tool))],
    [held.tools, (tool) => withheldTool(tool, toolJournal(tool))],
  );
  const prompt = lazyByName(
    [contract.prompts, (prompt) => upstreamPrompt(hosted, prompt)],
    [held.prompts, withheldPrompt],
  );
  const prompted = new Set(contract.prompts.map(({ name }) => name));
  const listed = [
    ...contract.resources.map(({ name, uri }) => ({ name, uri })),
    ...contract.resourceTemplates.map(({ name, uriTemplate }) => ({ name, uri: uriTemplate })),
  ];
  // Apps need not be listed. Those that a tool references are served only with approved contents.
  const named = [...contract.tools, ...held.tools].flatMap((tool) => readAppUri(tool) ?? []);
  const apps = new Map<string, Cid | null>(named.map((uri) => [uri, null]));
  for (const { uri, cid } of contract.apps ?? []) apps.set(uri, cid);
  // In the aggregate catalog, no other server may take over the URI of a withheld skill.
  const files = new Set([...skillUris(contract), ...skillUris(held), ...apps.keys()]);
  const offersResources = listed.length + files.size > 0;
  const withheldSkills = new Set(held.skills.map(({ uri }) => uri));
  const findSkills = skillFinder([...skills, ...held.skills]);
  const resourceAt = (uri: string): Resource => {
    const enclosing = findSkills(uri);
    const withheld = enclosing.find((skill) => withheldSkills.has(skill.uri));
    return withheld ? withheldFile(withheld) : upstreamResource(hosted, uri, { app: apps.get(uri), skills: enclosing });
  };
  const templates = new Set(contract.resourceTemplates.map(({ uriTemplate }) => uriTemplate));
  return {
    tool,
    prompt,
    // Upstreams may have unlisted resources.
    resource: async (uri) => (offersResources ? resourceAt(uri) : undefined),
    servesUri: servesUri(files, createUriTester(listed.filter(({ uri }) => !isOwnUri(uri)))),
    hasUnlisted: offersResources,
    completer: (of, argument) => {
      if (prompted.has(of)) return upstreamCompleter(hosted, { type: "ref/prompt", name: of }, argument);
      return templates.has(of) ? upstreamCompleter(hosted, { type: "ref/resource", uri: of }, argument) : undefined;
    },
  };
}

type LazyItems<Item, Made> = readonly [items: readonly Item[], make: (item: Item) => Made];

/** Creates items on first use, because most of thousands are never used. */
function lazyByName<Item extends { readonly name: string }, Made>(
  ...either: readonly LazyItems<Item, Made>[]
): (name: string) => Made | undefined {
  const groups = either.map(([items, make]) => ({ items: new Map(items.map((item) => [item.name, item])), make }));
  const created = new Map<string, Made>();
  return (name) => {
    const existing = created.get(name);
    if (existing) return existing;
    for (const { items, make } of groups) {
      const item = items.get(name);
      if (!item) continue;
      const first = make(item);
      created.set(name, first);
      return first;
    }
    return undefined;
  };
}

interface AppliedEntry {
  readonly contract: Contract;
  /** The contract that the upstream lists, by the name that clients use. */
  readonly originals: ReadonlyMap<string, ToolContract>;
  readonly hidden: readonly Offer[];
}

/** Applies the overrides of the entry to the upstream's contract. */
function applyEntry(own: Contract, entry: ServerEntry, isHidden: (offer: Offer) => boolean): AppliedEntry {
  const offered = new Map<string, { tool: ToolContract; original: ToolContract }>();
  for (const tool of own.tools) {
    if (entry.autoDiscover || Object.hasOwn(entry.tools, tool.name)) offered.set(tool.name, { tool, original: tool });
  }
  // The first of two tools with the same name wins.
  const byName = new Map(own.tools.toReversed().map((tool) => [tool.name, tool]));
  for (const [name, configured] of Object.entries(entry.tools)) {
    const original = byName.get(configured.function ?? name);
    if (original) offered.set(name, { tool: applyOverrides(name, original, configured), original });
    else offered.delete(name);
  }
  for (const name of entry.leftOut.tools) offered.delete(name);

  const offers: Offer[] = [
    ...Array.from(offered.keys(), (name) => ({ kind: "tool" as const, name })),
    ...own.prompts.map(({ name }) => ({ kind: "prompt" as const, name })),
  ];
  const hidden = offers.filter(isHidden);
  const isOffered = excluding(hidden);
  const offeredTools = [...offered].filter(([name]) => isOffered("tool", name));
  const description = entry.description ?? own.description;
  return {
    contract: {
      ...own,
      ...(description !== undefined && { description }),
      tools: offeredTools.map(([, { tool }]) => tool),
      prompts: own.prompts.filter(({ name }) => isOffered("prompt", name)),
    },
    originals: new Map(offeredTools.map(([name, { original }]) => [name, original])),
    hidden,
  };
}

function applyOverrides(name: string, original: ToolContract, configured: ConfiguredTool): ToolContract {
  const { title, description, annotations } = configured;
  return {
    ...original,
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(annotations && { annotations: { ...original.annotations, ...annotations } }),
  };
}

function servesUri(files: ReadonlySet<string>, others: Catalog["servesUri"]): Catalog["servesUri"] {
  return (uri) => (files.has(uri) && !isOwnUri(uri)) || others(uri);
}
