import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { Offer } from "./catalog.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { ConfiguredTool } from "../../entry/tool.ts";
import { notAmong } from "./release.ts";

export interface Curated {
  readonly contract: Contract;
  /** The upstream's own contract of each tool, by the name that clients know. */
  readonly originals: ReadonlyMap<string, ToolContract>;
  readonly hidden: readonly Offer[];
}

/** Makes the contract that clients see: the upstream's own, with what the entry in `mcps` overrides. */
export function curate(own: Contract, entry: ServerEntry, isHidden: (offer: Offer) => boolean): Curated {
  const offered = new Map<string, { tool: ToolContract; original: ToolContract }>();
  for (const tool of own.tools) {
    if (entry.autoDiscover || Object.hasOwn(entry.tools, tool.name)) offered.set(tool.name, { tool, original: tool });
  }
  // Where two tools have the same name, the first wins.
  const byName = new Map(own.tools.toReversed().map((tool) => [tool.name, tool]));
  for (const [name, configured] of Object.entries(entry.tools)) {
    const original = byName.get(configured.function ?? name);
    if (original) offered.set(name, { tool: described(name, original, configured), original });
    else offered.delete(name);
  }
  for (const name of entry.leftOut.tools) offered.delete(name);

  const offers: Offer[] = [
    ...Array.from(offered.keys(), (name) => ({ kind: "tool" as const, name })),
    ...own.prompts.map(({ name }) => ({ kind: "prompt" as const, name })),
  ];
  const hidden = offers.filter(isHidden);
  const isShown = notAmong(hidden);
  const shown = [...offered].filter(([name]) => isShown("tool", name));
  const description = entry.description ?? own.description;
  return {
    contract: {
      ...own,
      ...(description !== undefined && { description }),
      tools: shown.map(([, { tool }]) => tool),
      prompts: own.prompts.filter(({ name }) => isShown("prompt", name)),
    },
    originals: new Map(shown.map(([name, { original }]) => [name, original])),
    hidden,
  };
}

function described(name: string, original: ToolContract, configured: ConfiguredTool): ToolContract {
  const { title, description, annotations } = configured;
  return {
    ...original,
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(annotations && { annotations: { ...original.annotations, ...annotations } }),
  };
}
