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
import {
  describeAcceptance,
  grantProblems,
  createGrants,
  removeNameClashes,
  type GrantDependencies,
} from "../calls/granted.ts";
import { publishingPort, publishingPrompt, publishingResource } from "../calls/live-events.ts";
import { privateRequests, withOperatorGrants } from "../calls/operator-grants.ts";
import { configuredPrompt, createPrompt } from "../calls/prompt.ts";
import { createConverter } from "../calls/remake.ts";
import { appResource, createContentRun, toFindable, functionResource } from "../calls/resource.ts";
import { withConfiguredSchema, createRunFactory, type Run } from "../calls/run.ts";
import { createTool } from "../calls/tool.ts";
import { createUriFinder, createUriTester } from "../calls/uris/find-resource.ts";
import { createRedirects } from "../calls/uris/redirect.ts";
import { createUris, linkedResource, type Link } from "../calls/uris/uris.ts";
import type { Checks } from "../checks/checks.ts";
import { argumentsSchema } from "../checks/defaults.ts";
import type { ReadGuestResult, ResultTask } from "../checks/tasks.ts";
import { codeProblems } from "../directory/tenant-rules.ts";
import type { Catalog, Offer, Tool } from "../offers/catalog.ts";
import { identitiesOf } from "../offers/identity.ts";
import {
  createCompileOnce,
  compileDefinition,
  refused,
  type CompiledDefinition,
  type CompileOnce,
  type CompileDependencies,
} from "./compile-once.ts";
import { createRelease, type Release } from "./release.ts";
import { dropSkillFileResources, serveSkills, skillFileResource, type ServedSkills } from "./skills.ts";
import { applyTransforms } from "./transforms.ts";
import { loadUpstream, type UpstreamDependencies } from "./upstream-catalog.ts";

export interface LoadDependencies extends CompileDependencies, UpstreamDependencies, GrantDependencies {
  readonly executor: Executor;
  /** Validates arguments and results. */
  readonly checks: Checks;
  /** The identity of the compiler behind `compile`, recorded with each release. */
  readonly compiler: Cid;
  /** Adds to error messages where a function threw; off by default. */
  readonly errorLocations?: boolean;
  /** Any server of a tenant; see `Host.server`. */
  readonly findServer: (tenant: string, name: string) => Catalog | Promise<Catalog>;
  readonly limits: UpstreamDependencies["limits"] & FetchLimits & Pick<Limits, "callMs" | "outputBytes">;
}

/** The inputs of a release. */
export interface ReleaseInput {
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
  input: ReleaseInput,
  port: HostPort,
  dependencies: LoadDependencies,
  prepared?: PreparedRelease,
): Promise<Built> {
  const { entry, isHidden, isEarlier = false } = input;
  if (entry.upstream !== undefined) {
    const { upstream: uri } = entry;
    return loadUpstream(tenant, server, { uri, entry, isHidden, isEarlier }, dependencies);
  }
  const parts = { ...dependencies, compileOnce: createCompileOnce(tenant, dependencies) };
  const ready = prepared ?? (await prepareRelease(tenant, server, input, port, parts));
  // A trial may have prepared the release without retaining its code.
  if (prepared) await parts.compileOnce.retain(prepared);
  const catalog = await serveRelease(tenant, server, input, ready, port, parts);
  return { catalog, blocks: ready.release.blocks, prepared: ready };
}

type BuildDependencies = LoadDependencies & { readonly compileOnce: CompileOnce };

async function prepareRelease(
  tenant: string,
  server: string,
  { definition, entry, isHidden, isEarlier = false }: ReleaseInput,
  port: HostPort,
  dependencies: BuildDependencies,
): Promise<PreparedRelease> {
  const hasCode = definition !== undefined || Object.keys(entry.transforms).length > 0;
  const codeFaults = hasCode ? codeProblems(tenant, dependencies.executor) : [];
  if (codeFaults.length > 0) throw refused(server, codeFaults);
  const own = { definition, entry };
  const code = await compileDefinition(server, own, dependencies.compileOnce, dependencies);
  const { found, language, bundle, compiled } = code;
  const offered = buildOffer(server, found, entry);
  const inputs = { definition: definition ?? null, found: compiled, entry: rawBlock(JSON.stringify(entry.raw)).cid };
  await applyTransforms(offered, { tenant, server, inputs, entry, found }, port, dependencies);
  leaveOut(offered, entry);
  checkOptions(server, offered, entry);
  const skills = serveSkills(server, found.skills);
  dropSkillFileResources(offered, server, skills);
  if (!isEarlier) checkSize(server, offered, skills);
  if (language === "shell") removeNameClashes(server, offered, withGrants(entry, found, dependencies));
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
function withGrants(
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
  { definition, entry: own }: ReleaseInput,
  { release, found, language, bundle }: PreparedRelease,
  port: HostPort,
  dependencies: BuildDependencies,
): Promise<Catalog> {
  const entry = withGrants(own, found, dependencies);
  const { requested = [] } = found;
  const missing = ungranted(requested, entry);
  const subject = { tenant, server, entry };
  const grants = await createGrants({ ...subject, requested: missing }, port, dependencies);
  const journal = dependencies.journal.release(
    { tenant, server, release: release.block.cid },
    { entry, grant: grants.grant, sharedLimits: dependencies.sharedLimits },
  );
  const granted = { ...grants, port: publishingPort(grants.port, journal) };
  const validatorOf = dependencies.checks.of(tenant);
  const readsAll = entry.variables === undefined;
  const remake = createConverter(dependencies.checks, tenant);
  const uris = createUris({
    tenant,
    own: () => catalog,
    links: collectLinks(release),
    readsAll,
    validatorOf,
    ...dependencies,
    remake,
  });
  const redirects = createRedirects(
    uris,
    async (uri) => (await ownResource(uri)) ?? uris.findRedirected(uri) ?? catalog.resource(uri),
    remake,
  );
  const { limits } = dependencies;
  const readResult = (task: ResultTask): Promise<ReadGuestResult> => dependencies.checks.readResult(tenant, task);
  const readOutcome = dependencies.checks.outcomeReader(tenant);
  const fillPrompt = (task: PromptTask) => dependencies.checks.fillPrompt(tenant, task);
  const code = (): Promise<Uint8Array> => dependencies.compileOnce.code(server, definition ?? "", bundle ?? "");
  const createRun = createRunFactory({ tenant, server, language, bundle, code, granted }, dependencies);
  /** Runs of prompts, resources and completions also log to the server's activity. */
  const createLoggedRun = (callee: Parameters<typeof createRun>[0]): Run => {
    const [run, onLine] = [createRun(callee), journal.lines(callee.name)];
    return (args, options) => run(args, options, onLine);
  };
  const released = new Map(release.tools.map((tool) => [tool.contract.name, tool]));
  const tools = new Map<string, Tool>();
  /** Created on first call: most tools are only listed, and what calls need is ten times as large. */
  const findTool = (name: string): Tool | undefined => {
    const tool = released.get(name);
    if (!tool || tools.has(name)) return tools.get(name);
    const { contract, function: own } = tool;
    const run = createRun({ name, call: own.call, toolOptions: toolOptions(entry, name), acceptsUnread: true });
    const consent = requiresConsent(entry, name, own.name)
      ? dependencies.consents.forTool({ ...journal.release, tool: name }, contract.inputSchema)
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
    tools.set(name, createTool(contract, withConfiguredSchema(tool, run, validatorOf), parts, own));
    return tools.get(name);
  };
  const prompts = new Map(
    release.prompts.map(({ contract, source }) => {
      if (source.kind === "written") {
        return [
          contract.name,
          publishingPrompt(configuredPrompt(contract, source.prompt, limits, fillPrompt), journal),
        ];
      }
      const { name, call, inputSchema } = source.function;
      const check = validatorOf(argumentsSchema(inputSchema, source.function), { texts: true });
      const run = createLoggedRun({ name, call, acceptsUnread: true });
      return [
        contract.name,
        publishingPrompt(createPrompt(contract, check, run, redirects, readOutcome, remake), journal),
      ];
    }),
  );
  const skills = serveSkills(server, found.skills);
  const resources = release.resources.map((resource) => {
    const { source } = resource;
    const found = toFindable(resource);
    if (source.kind === "function") {
      const run = createLoggedRun({ ...source.function, acceptsUnread: true });
      return { ...found, open: publishingResource(functionResource(found, run, redirects, readOutcome), journal) };
    }
    if (source.kind === "app") {
      const read = (cid: Cid): Promise<Uint8Array | undefined> => dependencies.store.content(tenant, cid);
      return { ...found, open: publishingResource(appResource(source.app, read), journal) };
    }
    const { content } = source;
    const open =
      content.kind === "uri"
        ? linkedResource({ ...found, target: content.uri }, uris)
        : functionResource(found, createContentRun(content), redirects, readOutcome);
    return { ...found, open: publishingResource(open, journal) };
  });
  const offeredResource = bySchemes(resources, (some) => createUriFinder(some, validatorOf));
  const ownResource = async (uri: string) =>
    skillFileResource(skills, uri, tenant, dependencies.store) ?? (await offeredResource(uri));
  const uriSet = new Set(resources.map(({ uri }) => uri));
  const isOffered = (of: string): boolean => prompts.has(of) || uriSet.has(of);
  const completers = new Map(
    found.completions
      .filter(({ of }) => isOffered(of))
      .map((completion) => [
        completerKey(completion.of, completion.argument),
        createCompleter(
          completion,
          createLoggedRun({ name: completion.call.export, call: completion.call, acceptsUnread: true }),
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
        : requestProblems(server, entry.raw, missing, describeAcceptance(tenant, server))),
      ...(await grantProblems({ ...subject, requested }, granted.grant, dependencies)),
      ...retentionProblems(server, entry, limits),
    ],
    ...(missing.length > 0 && { ungranted: missing }),
    tool: findTool,
    readsUris: true,
    resource: async (uri) => (await ownResource(uri)) ?? uris.find(uri),
    servesUri: servesUri(
      skills,
      bySchemes(release.resources.map(toFindable), (some) => createUriTester(some, validatorOf)),
    ),
    identity: identitiesOf(release.contract.tools, describeImplementations(release, entry, bundle)),
    prompt: (name) => prompts.get(name),
    completer: (of, argument) => completers.get(completerKey(of, argument)),
    memo: new Map(),
  };
  return catalog;
}

/** A function of its own, so that it does not retain the catalog. */
function servesUri({ files }: ServedSkills, others: Catalog["servesUri"]): Catalog["servesUri"] {
  return (uri) => files.has(uri) || others(uri);
}

/** Looks up Berth's own URI schemes separately, so that a template such as `{+uri}` cannot match them. */
function bySchemes<Item extends { readonly uri: string }, Found>(
  items: readonly Item[],
  createLookup: (some: readonly Item[]) => (uri: string) => Found,
): (uri: string) => Found {
  const own = createLookup(items.filter(({ uri }) => isOwnUri(uri)));
  const others = createLookup(items.filter(({ uri }) => !isOwnUri(uri)));
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
function describeImplementations(
  { tools }: Release,
  entry: ServerEntry,
  bundle: Cid | null,
): (tool: string) => unknown {
  const called = new Map(
    tools.map(({ contract, function: own, fixed }) => [
      contract.name,
      { bundle, call: own.call, arguments: fixed ?? {}, options: toolOptions(entry, contract.name) },
    ]),
  );
  return (tool) => called.get(tool);
}

/** Resources whose content comes from Berth URIs in the entry. */
function collectLinks({ resources }: Release): Link[] {
  return resources.flatMap((resource) =>
    resource.source.kind === "content" && resource.source.content.kind === "uri"
      ? [{ ...toFindable(resource), target: resource.source.content.uri }]
      : [],
  );
}

function toolOptions({ options }: ServerEntry, tool: string): JsonObject {
  return Object.hasOwn(options, tool) ? options[tool]! : {};
}

function completerKey(of: string, argument: string): string {
  return JSON.stringify([of, argument]);
}
