import { jsonBlock, type Block, type Cid } from "../cid.ts";
import type { DiscoveredTool } from "../discover/discovery.ts";
import type { Problem } from "../problem.ts";
import type { Contract, ToolContract } from "./catalog.ts";
import type { ConfiguredTool, ServerEntry } from "./mcps.ts";

/** One immutable version of a server, and the tools that carry it out. */
export interface Release {
  readonly block: Block;
  readonly contract: Contract;
  readonly contractBlock: Block;
  readonly configBlock: Block;
  readonly tools: readonly { readonly contract: ToolContract; readonly discovered: DiscoveredTool }[];
  readonly problems: readonly Problem[];
}

/** Puts a definition's discovered tools and its configuration together. Pure: equal inputs give an equal CID. */
export function createRelease(input: {
  server: string;
  definition: Cid;
  bundle: Cid | null;
  entry: ServerEntry;
  discovered: readonly DiscoveredTool[];
}): Release {
  const { server, definition, bundle, entry, discovered } = input;
  const configured = entry.tools ?? {};
  const shown = discovered.filter((tool) => entry.autoDiscover || Object.hasOwn(configured, tool.name));
  const tools = shown.map((tool) => ({ contract: contractOf(tool, configured[tool.name]), discovered: tool }));

  const contract: Contract = {
    ...(entry.description !== undefined && { description: entry.description }),
    tools: tools.map((tool) => tool.contract),
  };
  const contractBlock = jsonBlock(contract);
  const configBlock = jsonBlock(entry);
  const block = jsonBlock({ definition, bundle, config: configBlock.cid, contract: contractBlock.cid });
  return { block, contract, contractBlock, configBlock, tools, problems: unknownTools(server, configured, discovered) };
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
