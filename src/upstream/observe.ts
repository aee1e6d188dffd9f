import type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "./lists.ts";
import type { Observed } from "./upstream.ts";

/** What a server offers now, in its own order; of each thing what a contract knows. */
export async function observe(connection: UpstreamConnection): Promise<Observed> {
  const [tools, resources, templates, prompts] = await Promise.all([
    connection.listTools(),
    connection.listResources(),
    connection.listResourceTemplates().catch(() => ({ items: [], problems: [] })),
    connection.listPrompts(),
  ]);
  const { instructions } = connection;
  const contract: Contract = {
    ...(instructions !== undefined && { description: instructions }),
    tools: tools.items.map(toolOf),
    resources: resources.items.map(resourceOf),
    resourceTemplates: templates.items.map(templateOf),
    prompts: prompts.items.map(promptOf),
  };
  const problems = [tools, resources, templates, prompts].flatMap((listed) => listed.problems);
  return { contract, problems };
}

function toolOf({ name, title, description, inputSchema, outputSchema, annotations }: ListedTool): ToolContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    ...(annotations !== undefined && { annotations }),
  };
}

function resourceOf({ uri, ...named }: ListedResource): ResourceContract {
  return { uri, ...namedOf(named) };
}

function templateOf({ uriTemplate, ...named }: ListedTemplate): ResourceTemplateContract {
  return { uriTemplate, ...namedOf(named) };
}

function namedOf({ name, title, description, mimeType }: Omit<ResourceContract, "uri">): Omit<ResourceContract, "uri"> {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
}

function promptOf({ name, title, description, arguments: args }: ListedPrompt): PromptContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(args !== undefined && {
      arguments: args.map(({ name, description, required }) => ({
        name,
        ...(description !== undefined && { description }),
        required,
      })),
    }),
  };
}
