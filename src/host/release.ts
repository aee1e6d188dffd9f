import { jsonBlock, type Block, type Cid } from "../cid.ts";
import type { DiscoveredPrompt, DiscoveredResource, DiscoveredTool, Discovery } from "../discover/discovery.ts";
import { isTemplate } from "../discover/uri-template.ts";
import type { Problem } from "../problem.ts";
import type {
  Contract,
  Offer,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "./catalog.ts";
import type { ConfiguredTool, ServerEntry } from "./mcps.ts";

/** One immutable version of a server, and what carries it out. */
export interface Release {
  readonly block: Block;
  readonly contract: Contract;
  readonly contractBlock: Block;
  readonly configBlock: Block;
  readonly tools: readonly { readonly contract: ToolContract; readonly discovered: DiscoveredTool }[];
  readonly resources: readonly DiscoveredResource[];
  readonly prompts: readonly { readonly contract: PromptContract; readonly discovered: DiscoveredPrompt }[];
  readonly hidden: readonly Offer[];
  readonly problems: readonly Problem[];
}

/**
 * Puts what a definition offers and its configuration together, in the order of the source. `hidden` names tools and
 * prompts that are left out. Pure: equal inputs give an equal CID.
 */
export function createRelease(input: {
  server: string;
  definition: Cid;
  bundle: Cid | null;
  entry: ServerEntry;
  hidden: readonly string[];
  discovered: Pick<Discovery, "tools" | "resources" | "prompts">;
}): Release {
  const { server, definition, bundle, entry, hidden, discovered } = input;
  const configured = entry.tools ?? {};
  const isVisible = ({ name }: { name: string }): boolean => !hidden.includes(name);
  const offered = discovered.tools.filter((tool) => entry.autoDiscover || Object.hasOwn(configured, tool.name));
  const tools = offered
    .filter(isVisible)
    .map((tool) => ({ contract: contractOf(tool, configured[tool.name]), discovered: tool }));
  const prompts = discovered.prompts
    .filter(isVisible)
    .map((prompt) => ({ contract: promptContractOf(prompt), discovered: prompt }));
  const { resources } = discovered;

  const contract: Contract = {
    ...(entry.description !== undefined && { description: entry.description }),
    tools: tools.map((tool) => tool.contract),
    resources: resources.filter(({ uri }) => !isTemplate(uri)).map(resourceContractOf),
    resourceTemplates: resources.filter(({ uri }) => isTemplate(uri)).map(templateContractOf),
    prompts: prompts.map((prompt) => prompt.contract),
  };
  const contractBlock = jsonBlock(contract);
  const configBlock = jsonBlock(entry);
  const block = jsonBlock({ definition, bundle, config: configBlock.cid, contract: contractBlock.cid });
  return {
    block,
    contract,
    contractBlock,
    configBlock,
    tools,
    resources,
    prompts,
    hidden: [...offersOf("tool", offered), ...offersOf("prompt", discovered.prompts)].filter(
      (offer) => !isVisible(offer),
    ),
    problems: unknownTools(server, configured, discovered.tools),
  };
}

function offersOf(kind: Offer["kind"], all: readonly { name: string }[]): Offer[] {
  return all.map(({ name }) => ({ kind, name }));
}

/** What a person configured goes before what was discovered, field by field. */
function contractOf(tool: DiscoveredTool, configured: ConfiguredTool = {}): ToolContract {
  const { name, annotations } = tool;
  const title = configured.title ?? tool.title;
  const description = configured.description ?? tool.description;
  const outputSchema = configured.outputSchema ?? tool.outputSchema;
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema: configured.inputSchema ?? tool.inputSchema,
    ...(outputSchema !== null && { outputSchema }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

function resourceContractOf({ uri, ...resource }: DiscoveredResource): ResourceContract {
  return { uri, ...namedContractOf(resource) };
}

function templateContractOf({ uri, ...resource }: DiscoveredResource): ResourceTemplateContract {
  return { uriTemplate: uri, ...namedContractOf(resource) };
}

function namedContractOf({ name, title, description, mimeType }: Omit<ResourceContract, "uri">) {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
}

function promptContractOf({ name, title, description, arguments: args }: DiscoveredPrompt): PromptContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(args.length > 0 && { arguments: args }),
  };
}

function unknownTools(
  server: string,
  configured: Readonly<Record<string, ConfiguredTool>>,
  discovered: readonly DiscoveredTool[],
): Problem[] {
  const known = new Set(discovered.map((tool) => tool.name));
  return Object.keys(configured)
    .filter((name) => !known.has(name))
    .map((name) => ({
      code: "unknown-tool",
      message: `The tool "${name}" is configured, but the definition exports no such function`,
      severity: "error" as const,
      tool: name,
      pointer: `/${server}/tools/${name}`,
    }));
}
