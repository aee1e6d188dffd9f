import type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
import { turnTaker } from "../lib/event-loop.ts";
import type { ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "./lists.ts";
import type { Survey } from "./survey.ts";

/**
 * The contract from a server's lists, in its own order: only fields that a contract knows. Other calls get their turn
 * meanwhile.
 */
export async function contractOf(survey: Survey): Promise<Contract> {
  const { description, tools, resources, resourceTemplates, prompts } = survey;
  return {
    ...(description !== undefined && { description }),
    tools: await each(tools, toolOf),
    resources: await each(resources, resourceOf),
    resourceTemplates: await each(resourceTemplates, templateOf),
    prompts: await each(prompts, promptOf),
  };
}

async function each<Item, Made>(items: readonly Item[], make: (item: Item) => Made): Promise<Made[]> {
  const turn = turnTaker();
  const made: Made[] = [];
  for (const item of items) {
    await turn();
    made.push(make(item));
  }
  return made;
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
