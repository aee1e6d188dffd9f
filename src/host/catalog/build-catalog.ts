import { contractBounds } from "../../contract/contract-bounds.ts";
import { isOwnUri } from "../../entry/address.ts";
import { consentProblems, requiresConsent } from "../../entry/consent-field.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { requestProblems, ungranted } from "../../entry/grant-requests.ts";
import { retentionProblems } from "../../entry/grants-fields.ts";
import { checkOptions, leaveOut, buildOffer, type Offered } from "../../entry/offer.ts";
import type { PromptTask } from "../../entry/prompt-fields.ts";
import type { Executor } from "../../executor/executor.ts";
import type { HostPort } from "../../executor/executor.ts";
import { rawBlock, type Block, type Cid } from "../../lib/cid.ts";
import { countValues, type JsonObject } from "../../lib/json.ts";
import { withoutSetVariables } from "../../lib/problem.ts";
import type { Limits } from "../../limits/limits.ts";
import type { FetchLimits } from "../../network/fetches.ts";
import { createCompleter } from "../calls/completer.ts";
import { acceptanceOf, grantProblems, grantTo, leaveOutNamesakes, type GrantDependencies } from "../calls/granted.ts";
import { followedPort, followedPrompt, followedResource } from "../calls/live-events.ts";
import { privateRequests, withOperatorGrants } from "../calls/operator-grants.ts";
import { writtenPrompt, createPrompt } from "../calls/prompt.ts";
import { remaking } from "../calls/remake.ts";
import { appResource, contentRun, findable, functionResource } from "../calls/resource.ts";
import { configuredRun, runFactory, type Run } from "../calls/run.ts";
import { createTool } from "../calls/tool.ts";
import { uriFinder, uriTester } from "../calls/uris/find-resource.ts";
import { createRedirects } from "../calls/uris/redirect.ts";
import { createUris, linkedResource, type Link } from "../calls/uris/uris.ts";
import type { Checks } from "../checks/checks.ts";
import { argumentsSchema } from "../checks/defaults.ts";
import type { ReadGuestResult, ResultTask } from "../checks/tasks.ts";
import { codeProblems } from "../directory/tenant-rules.ts";
import type { Catalog, Offer, Tool } from "../offers/catalog.ts";
import { identitiesOf } from "../offers/identity.ts";
import {
  compilingOnce,
  compiledDefinition,
  refused,
  type CompiledDefinition,
  type CompileOnce,
  type CompilingParts,
} from "./compile-once.ts";
import { createRelease, type Release } from "./release.ts";
import { makeWay, servedSkills, skillFileResource, type ServedSkills } from "./skills.ts";
import { applyTransforms } from "./transforms.ts";
import { loadUpstream, type UpstreamDependencies } from "./upstream-catalog.ts";

export interface LoadDependencies extends CompilingParts, UpstreamDependencies, GrantDependencies {
  readonly executor: Executor;
  /** Validates arguments and results. */
  readonly checks: Checks;
  /** The identity of the compiler behind `compile`, recorded with each release. */
  readonly compiler: Cid;
  /** Adds to error messages where a function threw; off by default. */
  readonly errorLocations?: boolean;
  /** Any server of a tenant; see `Host.server`. */
  readonly serverOf: (tenant: string, name: string) => Catalog | Promise<Catalog>;
  readonly limits: UpstreamDependencies["limits"] & FetchLimits & Pick<Limits, "callMs" | "outputBytes">;
}

/** The inputs of a release. */
export interface Made {
  /** Undefined when the entry itself defines the server. */
  readonly definition: Cid | undefined;
  readonly entry: ServerEntry;
  /** True for offers to omit. */
  readonly isHidden: (offer: Offer) => boolean;
  /** An earlier release, which is not recorded again. */
  readonly isEarlier?: boolean;
}

/** A release with its compiled code: the part of a catalog that does not depend on the host. */
export interface PreparedRelease extends CompiledDefinition {
  readonly release: Release;
}

interface Built {
  readonly catalog: Catalog;
  /** The blocks of the release. */
  readonly blocks: readonly Block[];
  /** Absent for an upstream, whose offer comes from its process. */
  readonly prepared?: PreparedRelease;
}

/** Builds a release, unless it is `prepared`, and its catalog. */
export async function buildCatalog(
  tenant: string,
  server: string,
  made: Made,
  port: HostPort,
  dependencies: LoadDependencies,
  prepared?: PreparedRelease,
): Promise<Built> {
  const { entry, isHidden, isEarlier = false } = made;
  if (entry.upstream !== undefined) {
    const { upstream: uri } = entry;
    return loadUpstream(tenant, server, { uri, entry, isHidden, isEarlier }, dependencies);
  }
  const parts = { ...dependencies, compileOnce: compilingOnce(tenant, dependencies) };
  const ready = prepared ?? (await prepareRelease(tenant, server, made, port, parts));
  // A trial may have prepared the release without retaining its code.
  if (prepared) await parts.compileOnce.hold(prepared);
  const catalog = await serveRelease(tenant, server, made, ready, port, parts);
  return { catalog, blocks: ready.release.blocks, prepared: ready };
}

type BuildingParts = LoadDependencies & { readonly compileOnce: CompileOnce };

async function prepareRelease(
  tenant: string,
  server: string,
  { definition, entry, isHidden, isEarlier = false }: Made,
  port: HostPort,
  dependencies: BuildingParts,
): Promise<PreparedRelease> {
  const hasCode = definition !== undefined || Object.keys(entry.transforms).length > 0;
  const strange = hasCode ? codeProblems(tenant, dependencies.executor) : [];
  if (strange.length > 0) throw refused(server, strange);
  const own = { definition, entry };
  const code = await compiledDefinition(server, own, dependencies.compileOnce, dependencies);
  const { found, language, bundle, compiled } = code;
  const offered = buildOffer(server, found, entry);
  const given = { definition: definition ?? null, found: compiled, entry: rawBlock(JSON.stringify(entry.raw)).cid };
  await applyTransforms(offered, { tenant, server, given, entry, found }, port, dependencies);
  leaveOut(offered, entry);
  checkOptions(server, offered, entry);
  const skills = servedSkills(server, found.skills);
  makeWay(offered, server, skills);
  if (!isEarlier) checkSize(server, offered, skills);
  if (language === "shell") leaveOutNamesakes(server, offered, givenTo(entry, found, dependencies));
  const packages = dependencies.compileOnce.packages();
  const release = await createRelease({
    definition: definition ?? null,
    bundle,
    packages,
    entry,
    offered,
    skills,
    isHidden,
  });
  return { ...code, release };
}

/** The entry with the operator's grants, if any. */
function givenTo(
  entry: ServerEntry,
  { requested = [] }: Pick<CompiledDefinition["found"], "requested">,
  { operatorGrants }: Pick<LoadDependencies, "operatorGrants">,
): ServerEntry {
  return operatorGrants ? withOperatorGrants(entry, requested, operatorGrants) : entry;
}

/** Builds the catalog of a release. Its code sends requests to `port`. */
async function serveRelease(
  tenant: string,
  server: string,
  { definition, entry: own }: Made,
  { release, found, language, bundle }: PreparedRelease,
  port: HostPort,
  dependencies: BuildingParts,
): Promise<Catalog> {
  const entry = givenTo(own, found, dependencies);
  const { requested = [] } = found;
  const missing = ungranted(requested, entry);
  const subject = { tenant, server, entry };
  const given = await grantTo({ ...subject, requested: missing }, port, dependencies);
  const journal = dependencies.journal.release(
    { tenant, server, release: release.block.cid },
    { entry, grant: given.grant, sharedLimits: dependencies.sharedLimits },
  );
  const granted = { ...given, port: followedPort(given.port, journal) };
  const validatorOf = dependencies.checks.of(tenant);
  const readsAll = entry.variables === undefined;
  const remake = remaking(dependencies.checks, tenant);
  const uris = createUris({
    tenant,
    own: () => catalog,
    links: linksOf(release),
    readsAll,
    validatorOf,
    ...dependencies,
    remake,
  });
  const redirects = createRedirects(
    uris,
    async (uri) => (await ownResource(uri)) ?? uris.findLed(uri) ?? catalog.resource(uri),
    remake,
  );
  const { limits } = dependencies;
  const readResult = (task: ResultTask): Promise<ReadGuestResult> => dependencies.checks.readResult(tenant, task);
  const readOutcome = dependencies.checks.outcomeReader(tenant);
  const fillPrompt = (task: PromptTask) => dependencies.checks.fillPrompt(tenant, task);
  const code = (): Promise<Uint8Array> => dependencies.compileOnce.code(server, definition ?? "", bundle ?? "");
  const runOf = runFactory({ tenant, server, language, bundle, code, granted }, dependencies);
  /** Runs of prompts, resources and completions also log to the server's activity. */
  const heardRunOf = (callee: Parameters<typeof runOf>[0]): Run => {
    const [run, onLine] = [runOf(callee), journal.lines(callee.name)];
    return (args, options) => run(args, options, onLine);
  };
  const released = new Map(release.tools.map((tool) => [tool.contract.name, tool]));
  const tools = new Map<string, Tool>();
  /** Created on first call: most tools are only listed, and what calls need is ten times as large. */
  const toolOf = (name: string): Tool | undefined => {
    const tool = released.get(name);
    if (!tool || tools.has(name)) return tools.get(name);
    const { contract, function: own } = tool;
    const run = runOf({ name, call: own.call, toolOptions: optionsOf(entry, name), takesUnread: true });
    const consent = requiresConsent(entry, name, own.name)
      ? dependencies.consents.of({ ...journal.release, tool: name }, contract.inputSchema)
      : undefined;
    const { errorLocations = false } = dependencies;
    const parts = {
      redirects,
      journal: journal.tool(contract),
      consent,
      validatorOf,
      readResult,
      errorLocations,
      limits,
    };
    tools.set(name, createTool(contract, configuredRun(tool, run, validatorOf), parts, own));
    return tools.get(name);
  };
  const prompts = new Map(
    release.prompts.map(({ contract, source }) => {
      if (source.kind === "written") {
        return [contract.name, followedPrompt(writtenPrompt(contract, source.prompt, limits, fillPrompt), journal)];
      }
      const { name, call, inputSchema } = source.function;
      const check = validatorOf(argumentsSchema(inputSchema, source.function), { texts: true });
      const run = heardRunOf({ name, call, takesUnread: true });
      return [
        contract.name,
        followedPrompt(createPrompt(contract, check, run, redirects, readOutcome, remake), journal),
      ];
    }),
  );
  const skills = servedSkills(server, found.skills);
  const resources = release.resources.map((resource) => {
    const { source } = resource;
    const found = findable(resource);
    if (source.kind === "function") {
      const run = heardRunOf({ ...source.function, takesUnread: true });
      return { ...found, open: followedResource(functionResource(found, run, redirects, readOutcome), journal) };
    }
    if (source.kind === "app") {
      const read = (cid: Cid): Promise<Uint8Array | undefined> => dependencies.store.content(tenant, cid);
      return { ...found, open: followedResource(appResource(source.app, read), journal) };
    }
    const { content } = source;
    const open =
      content.kind === "uri"
        ? linkedResource({ ...found, target: content.uri }, uris)
        : functionResource(found, contentRun(content), redirects, readOutcome);
    return { ...found, open: followedResource(open, journal) };
  });
  const offeredResource = bySchemes(resources, (some) => uriFinder(some, validatorOf));
  const ownResource = async (uri: string) =>
    skillFileResource(skills, uri, tenant, dependencies.store) ?? (await offeredResource(uri));
  const uriSet = new Set(resources.map(({ uri }) => uri));
  const isShown = (of: string): boolean => prompts.has(of) || uriSet.has(of);
  const completers = new Map(
    found.completions
      .filter(({ of }) => isShown(of))
      .map((completion) => [
        completerKey(completion.of, completion.argument),
        createCompleter(
          completion,
          heardRunOf({ name: completion.call.export, call: completion.call, takesUnread: true }),
          readOutcome,
        ),
      ]),
  );
  const catalog: Catalog = {
    server,
    release: release.block.cid,
    contractCid: release.contractBlock.cid,
    contract: release.contract,
    ...(entry.icons.length > 0 && { icons: entry.icons }),
    ...(definition !== undefined && { language }),
    hidden: release.hidden,
    functions: found.tools.map(({ name }) => name),
    problems: [
      ...withoutSetVariables(found.problems, entry.env),
      ...release.problems,
      ...consentProblems(server, entry, [...release.contract.tools, ...release.hidden]),
      ...(dependencies.operatorGrants
        ? privateRequests(requested, dependencies.operatorGrants)
        : requestProblems(server, entry.raw, missing, acceptanceOf(tenant, server))),
      ...(await grantProblems({ ...subject, requested }, granted.grant, dependencies)),
      ...retentionProblems(server, entry, limits),
    ],
    ...(missing.length > 0 && { ungranted: missing }),
    tool: toolOf,
    readsUris: true,
    resource: async (uri) => (await ownResource(uri)) ?? uris.find(uri),
    gives: givesOf(
      skills,
      bySchemes(release.resources.map(findable), (some) => uriTester(some, validatorOf)),
    ),
    identity: identitiesOf(release.contract.tools, implementations(release, entry, bundle)),
    prompt: (name) => prompts.get(name),
    completer: (of, argument) => completers.get(completerKey(of, argument)),
    memo: new Map(),
  };
  return catalog;
}

/** A function of its own, so that it does not retain the catalog. */
function givesOf({ files }: ServedSkills, others: Catalog["gives"]): Catalog["gives"] {
  return (uri) => files.has(uri) || others(uri);
}

/** Looks up Berth's own URI schemes separately, so that a template such as `{+uri}` cannot match them. */
function bySchemes<Item extends { readonly uri: string }, Found>(
  items: readonly Item[],
  lookUp: (some: readonly Item[]) => (uri: string) => Found,
): (uri: string) => Found {
  const own = lookUp(items.filter(({ uri }) => isOwnUri(uri)));
  const others = lookUp(items.filter(({ uri }) => !isOwnUri(uri)));
  return (uri) => (isOwnUri(uri) ? own : others)(uri);
}

/** An entry may define many tools from one function, each with all of its schemas. */
function checkSize(server: string, { tools, resources, prompts }: Offered, skills: ServedSkills): void {
  const { contractBytes, contractValues } = contractBounds;
  let [bytes, values] = [0, 0];
  const listed = [...tools.values(), ...resources.values(), ...prompts.values()].map(({ contract }) => contract);
  for (const contract of [...listed, ...skills.contracts]) {
    bytes += Buffer.byteLength(JSON.stringify(contract));
    values += countValues(contract, contractValues);
    if (bytes <= contractBytes && values <= contractValues) continue;
    const limit =
      bytes > contractBytes ? `more than ${contractBytes} bytes` : `more than ${contractValues} JSON values`;
    const message = `The server's contract has ${limit}; offer less, use simpler types, or split the server`;
    throw refused(server, [{ code: "too-large", message, severity: "error" }]);
  }
}

/** A function of its own, so that cached identities do not retain the catalog. */
function implementations({ tools }: Release, entry: ServerEntry, bundle: Cid | null): (tool: string) => unknown {
  const called = new Map(
    tools.map(({ contract, function: own, fixed }) => [
      contract.name,
      { bundle, call: own.call, arguments: fixed ?? {}, options: optionsOf(entry, contract.name) },
    ]),
  );
  return (tool) => called.get(tool);
}

/** Resources whose content comes from Berth URIs in the entry. */
function linksOf({ resources }: Release): Link[] {
  return resources.flatMap((resource) =>
    resource.source.kind === "content" && resource.source.content.kind === "uri"
      ? [{ ...findable(resource), target: resource.source.content.uri }]
      : [],
  );
}

function optionsOf({ options }: ServerEntry, tool: string): JsonObject {
  return Object.hasOwn(options, tool) ? options[tool]! : {};
}

function completerKey(of: string, argument: string): string {
  return JSON.stringify([of, argument]);
}
