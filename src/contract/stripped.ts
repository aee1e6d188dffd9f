import { turnTaker } from "../lib/event-loop.ts";
import type { Contract, PromptContract, ResourceContract, ToolContract } from "./contract.ts";

/**
 * A contract of an upstream with only the fields that earlier versions of Berth kept: what was approved then is compared
 * with it, so that an upgrade alone holds nothing back. Other calls get their turn meanwhile.
 */
export function stripped(contract: Contract): Promise<Contract> {
  let made = known.get(contract);
  if (!made) known.set(contract, (made = strip(contract)));
  return made;
}

const known = new WeakMap<Contract, Promise<Contract>>();

async function strip(contract: Contract): Promise<Contract> {
  const { description, tools, resources, resourceTemplates, prompts } = contract;
  return {
    ...(description !== undefined && { description }),
    tools: await each(tools, strippedTool),
    resources: await each(resources, ({ uri, ...named }) => ({ uri, ...namedOf(named) })),
    resourceTemplates: await each(resourceTemplates, ({ uriTemplate, ...named }) => ({
      uriTemplate,
      ...namedOf(named),
    })),
    prompts: await each(prompts, strippedPrompt),
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

/** The same object each time, so that its CID is made once. */
export const strippedTool = once(({ name, title, description, inputSchema, ...more }: ToolContract): ToolContract => {
  const { outputSchema, annotations } = more;
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    ...(annotations !== undefined && { annotations }),
  };
});

export const strippedPrompt = once(({ name, title, description, arguments: args }: PromptContract): PromptContract => ({
  name,
  ...(title !== undefined && { title }),
  ...(description !== undefined && { description }),
  ...(args !== undefined && {
    arguments: args.map(({ name, description, required = false }) => ({
      name,
      ...(description !== undefined && { description }),
      required,
    })),
  }),
}));

function once<Item extends object>(make: (item: Item) => Item): (item: Item) => Item {
  const made = new WeakMap<Item, Item>();
  return (item) => {
    let one = made.get(item);
    if (!one) made.set(item, (one = make(item)));
    return one;
  };
}

function namedOf({ name, title, description, mimeType }: Omit<ResourceContract, "uri">): Omit<ResourceContract, "uri"> {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
}
