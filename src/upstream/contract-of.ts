import type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
import type { ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "./lists.ts";
import type { Survey } from "./survey.ts";

/** The contract in what a server lists, in its own order: of each thing what a contract knows. */
export function contractOf({ description, tools, resources, resourceTemplates, prompts }: Survey): Contract {
  return {
    ...(description !== undefined && { description }),
    tools: tools.map(toolOf),
    resources: resources.map(resourceOf),
    resourceTemplates: resourceTemplates.map(templateOf),
    prompts: prompts.map(promptOf),
  };
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
