import { appMeta, APP_MIME_TYPE } from "../contract/apps.ts";
import type { PromptContract, ResourceContract, ResourceTemplateContract, ToolContract } from "../contract/contract.ts";
import type {
  CompiledApp,
  DiscoveredPrompt,
  DiscoveredResource,
  DiscoveredTool,
  Discovery,
} from "../discover/discovery.ts";
import { isTemplate } from "../discover/uri-template.ts";
import { isObject, type JsonObject, type JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { isOwnUri } from "./address.ts";
import { addProblem, inside, type ConfigPlace } from "./config-place.ts";
import type { ServerEntry } from "./entry.ts";
import type { ConfiguredPrompt } from "./prompt-fields.ts";
import type { ConfiguredContent, ConfiguredResource } from "./resource-fields.ts";
import type { ConfiguredTool } from "./tool-fields.ts";

/**
 * A server's offer, combined from its definition and its entry; transforms start from it. By name and by URI, in the
 * order in which clients see it: the definition's own items first, in the order of its source.
 */
export interface Offered {
  readonly tools: Map<string, OfferedTool>;
  readonly resources: Map<string, OfferedResource>;
  readonly prompts: Map<string, OfferedPrompt>;
  readonly problems: Problem[];
}

export interface OfferedTool {
  readonly contract: ToolContract;
  readonly function: DiscoveredTool;
  /** Arguments that clients do not send. */
  readonly fixed?: JsonObject;
}

export interface OfferedResource {
  readonly contract: ResourceContract | ResourceTemplateContract;
  readonly source: ResourceSource;
}

type ResourceSource =
  | { readonly kind: "function"; readonly function: DiscoveredResource }
  | { readonly kind: "content"; readonly content: ConfiguredContent }
  | { readonly kind: "app"; readonly app: CompiledApp };

export interface OfferedPrompt {
  readonly contract: PromptContract;
  readonly source:
    | { readonly kind: "function"; readonly function: DiscoveredPrompt }
    | { readonly kind: "written"; readonly prompt: ConfiguredPrompt };
}

/** The items of a definition; empty for a server without one. */
export type DiscoveredItems = Pick<Discovery, "tools" | "resources" | "prompts"> & {
  readonly apps?: readonly CompiledApp[];
};

export function buildOffer(server: string, found: DiscoveredItems, entry: ServerEntry): Offered {
  const isOffered = ({ name }: DiscoveredTool): boolean => entry.autoDiscover || Object.hasOwn(entry.tools, name);
  const offered: Offered = {
    tools: new Map(found.tools.filter(isOffered).map((tool) => [tool.name, discoveredTool(tool)])),
    resources: new Map(
      found.resources
        .filter(({ uri }) => !isOwnUri(uri))
        .map((resource) => [resource.uri, discoveredResource(resource)]),
    ),
    prompts: new Map(found.prompts.map((prompt) => [prompt.name, discoveredPrompt(prompt)])),
    problems: [],
  };
  for (const app of found.apps ?? []) offered.resources.set(app.uri, discoveredApp(app));
  const place = inside({ pointer: "", problems: offered.problems }, server);
  for (const { uri } of found.resources.filter(({ uri }) => isOwnUri(uri))) {
    addProblem(place, "bad-uri", `No function can be the resource ${uri}: Berth serves its own content there`);
  }
  for (const [name, tool] of Object.entries(entry.tools)) {
    putTool(offered, found, name, tool, { ...inside(inside(place, "tools"), name), tool: name });
  }
  for (const resource of entry.resources) {
    putResource(offered, found, resource, inside(inside(place, "resources"), resource.key));
  }
  for (const [name, prompt] of Object.entries(entry.prompts)) putPrompt(offered, name, prompt);

  leaveOut(offered, entry);
  return offered;
}

/** Removes items with an invalid configuration, which may be what restricts them. */
export function leaveOut({ tools, prompts, resources }: Offered, { leftOut }: ServerEntry): void {
  for (const name of leftOut.tools) tools.delete(name);
  for (const name of leftOut.prompts) prompts.delete(name);
  for (const uri of leftOut.resources) resources.delete(uri);
}

/** Options for an unknown tool are most likely a typo in the tool's name. */
export function checkOptions(server: string, { tools, problems }: Offered, { options }: ServerEntry): void {
  const place = inside(inside({ pointer: "", problems }, server), "options");
  for (const tool of Object.keys(options)) {
    if (tools.has(tool)) continue;
    const message = `There are options for "${tool}", but the server has no such tool`;
    addProblem(inside(place, tool), "unknown-tool", message, "warning");
  }
}

/** The offer so far, as a transform receives it; `functions` are the tools of the definition. */
export function listContracts({ tools, resources, prompts }: Offered, found: DiscoveredItems) {
  const contracts = <Item>(map: ReadonlyMap<string, { contract: Item }>): Item[] =>
    Array.from(map.values(), ({ contract }) => contract);
  return {
    tools: contracts(tools),
    resources: contracts(resources),
    prompts: contracts(prompts),
    functions: found.tools.map((tool) => discoveredToolContract(tool)),
  };
}

/** Offers a tool as configured, in place of one with the same name. A tool without a function is left out. */
export function putTool(
  { tools }: Offered,
  found: DiscoveredItems,
  name: string,
  configured: ConfiguredTool,
  place: ConfigPlace,
): void {
  const functionName = configured.function ?? name;
  const own =
    found.tools.find((tool) => tool.name === functionName) ??
    found.tools.find(({ call }) => call.export === functionName);
  const base = (configured.function === undefined ? tools.get(name) : undefined) ?? (own && discoveredTool(own));
  if (!base) {
    tools.delete(name);
    const at = configured.function === undefined ? place : inside(place, "function");
    const message = `The tool "${name}" is configured, but the definition has no tool function "${functionName}"`;
    return addProblem(at, "unknown-tool", message);
  }
  const unknown = unknownArgument(base.function, configured.arguments);
  if (unknown !== undefined) {
    tools.delete(name);
    const message = `The function "${base.function.name}" takes no argument "${unknown}"`;
    return addProblem(inside(inside(place, "arguments"), unknown), "unknown-argument", message);
  }
  const fixed = configured.arguments ? { ...base.fixed, ...configured.arguments } : base.fixed;
  tools.set(name, {
    contract: configuredToolContract(name, base.contract, configured),
    function: base.function,
    ...(fixed && { fixed }),
  });
}

/** Offers a resource in place of one with the same URI. A resource without content is left out. */
export function putResource(
  { resources }: Offered,
  found: DiscoveredItems,
  { content, key, ...configured }: ConfiguredResource,
  place: ConfigPlace,
): void {
  const { uri } = configured;
  const own = found.resources.find((resource) => resource.uri === uri);
  const existing = resources.get(uri) ?? (own && discoveredResource(own));
  const source = content ? ({ kind: "content", content } as const) : existing?.source;
  if (!source) {
    resources.delete(uri);
    const message =
      `"${uri}" has no content: write "text", "blob" or "content", ` +
      "or give the definition a function with that @resource";
    return addProblem(place, "no-content", message);
  }
  // Its own content makes it another resource, which the contract of the URI does not describe.
  const base = content ? undefined : existing?.contract;
  const name = configured.name ?? (key === uri ? base?.name : undefined) ?? key;
  resources.set(uri, { contract: resourceContract({ ...base, ...configured, uri, name }), source });
}

/** Offers a written prompt in place of one with the same name. */
export function putPrompt({ prompts }: Offered, name: string, prompt: ConfiguredPrompt): void {
  prompts.set(name, { contract: promptContract({ name, ...prompt }), source: { kind: "written", prompt } });
}

function discoveredTool(tool: DiscoveredTool): OfferedTool {
  return { contract: discoveredToolContract(tool), function: tool };
}

function discoveredResource(resource: DiscoveredResource): OfferedResource {
  return { contract: resourceContract(resource), source: { kind: "function", function: resource } };
}

function discoveredApp(app: CompiledApp): OfferedResource {
  const contract = resourceContract({ uri: app.uri, name: app.file, mimeType: APP_MIME_TYPE });
  return { contract, source: { kind: "app", app } };
}

function discoveredPrompt(prompt: DiscoveredPrompt): OfferedPrompt {
  return { contract: promptContract(prompt), source: { kind: "function", function: prompt } };
}

function unknownArgument({ inputSchema }: DiscoveredTool, fixed: JsonObject | undefined): string | undefined {
  const { properties, additionalProperties } = inputSchema;
  if (additionalProperties !== false) return undefined;
  return Object.keys(fixed ?? {}).find((name) => !Object.hasOwn((properties as object | undefined) ?? {}, name));
}

/** The contract of each offered item, discovered or configured. */

function discoveredToolContract(tool: DiscoveredTool): ToolContract {
  const { name, title, description, icons, inputSchema, outputSchema, annotations, ui } = tool;
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== null && { outputSchema }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(icons && { icons }),
    ...(ui && { _meta: appMeta(ui.uri, ui.visibility) }),
  };
}

/** A configured field takes precedence over the discovered one. */
function configuredToolContract(name: string, base: ToolContract, configured: ConfiguredTool): ToolContract {
  const title = configured.title ?? base.title;
  const description = configured.description ?? base.description;
  const outputSchema = configured.outputSchema ?? base.outputSchema;
  const annotations = { ...base.annotations, ...configured.annotations };
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema: configured.inputSchema ?? withoutArguments(base.inputSchema, configured.arguments),
    ...(outputSchema !== undefined && { outputSchema }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(base.icons && { icons: base.icons }),
    ...(base._meta && { _meta: base._meta }),
  };
}

function resourceContract(
  resource: Omit<ResourceContract, "uri"> & { uri: string },
): ResourceContract | ResourceTemplateContract {
  const { uri, name, title, description, mimeType, icons } = resource;
  return {
    ...(isTemplate(uri) ? { uriTemplate: uri } : { uri }),
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
    ...(icons && { icons }),
  };
}

function promptContract({ name, title, description, icons, arguments: args }: PromptContract): PromptContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(args && args.length > 0 && { arguments: args }),
    ...(icons && { icons }),
  };
}

function withoutArguments(schema: JsonSchema, fixed: JsonObject | undefined): JsonSchema {
  if (!fixed) return schema;
  const { properties, required, ...rest } = schema;
  const isFree = (name: unknown): boolean => !Object.hasOwn(fixed, name as string);
  const remaining = Object.entries(isObject(properties) ? properties : {}).filter(([name]) => isFree(name));
  const stillRequired = Array.isArray(required) ? required.filter(isFree) : [];
  return {
    ...rest,
    properties: Object.fromEntries(remaining),
    ...(stillRequired.length > 0 && { required: stillRequired }),
  };
}
