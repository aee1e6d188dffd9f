import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Catalog } from "./catalog.ts";
import type { CallNotes } from "../calls/observe.ts";
import { uriTester } from "../calls/resource.ts";
import { isOwn } from "../../entry/address.ts";
import type { HostedUpstream } from "../serving/hosted.ts";
import type { Held } from "./judge.ts";
import { heldPrompt, upstreamCompleter, upstreamPrompt, upstreamResource } from "./upstream-offers.ts";
import { heldTool, upstreamTool, type UpstreamToolParts } from "../calls/upstream-tool.ts";

/** The served part of an upstream, and what its parts are made of. */
export interface Served extends Pick<UpstreamToolParts, "limits"> {
  readonly contract: Contract;
  readonly originals: ReadonlyMap<string, ToolContract>;
  /** Not listed; a client that knows one from before is told why it is not used. */
  readonly held: Held;
  /** The options that a tool finds in its call's context, by the name that clients know. */
  readonly optionsOf: (tool: string) => JsonObject;
  /** By the name that clients know. */
  readonly notesOf: (tool: string) => CallNotes;
  /** Called when a tool contradicts itself. */
  readonly warn: (tool: string, message: string) => void;
}

/** The parts of a catalog that the upstream carries out, however it is reached. */
export function upstreamParts(
  hosted: HostedUpstream,
  { contract, originals, held, optionsOf, notesOf, limits, warn }: Served,
): Pick<Catalog, "tool" | "resource" | "gives" | "hasUnlisted" | "prompt" | "completer"> {
  const partsOf = (tool: ToolContract): UpstreamToolParts => ({
    hosted,
    original: originals.get(tool.name) ?? tool,
    configured: optionsOf(tool.name),
    notes: notesOf(tool.name),
    limits,
    warn: (message) => warn(tool.name, message),
  });
  const tool = foundByName(
    [contract.tools, (tool) => upstreamTool(tool, partsOf(tool))],
    [held.tools, (tool) => heldTool(tool, notesOf(tool.name))],
  );
  const prompt = foundByName(
    [contract.prompts, (prompt) => upstreamPrompt(hosted, prompt)],
    [held.prompts, heldPrompt],
  );
  const prompted = new Set(contract.prompts.map(({ name }) => name));
  const listed = [
    ...contract.resources.map(({ name, uri }) => ({ name, uri })),
    ...contract.resourceTemplates.map(({ name, uriTemplate }) => ({ name, uri: uriTemplate })),
  ];
  const offersResources = listed.length > 0;
  const templates = new Set(contract.resourceTemplates.map(({ uriTemplate }) => uriTemplate));
  return {
    tool,
    prompt,
    // Upstreams have resources that they do not list.
    resource: async (uri) => (offersResources ? upstreamResource(hosted, uri) : undefined),
    gives: uriTester(listed.filter(({ uri }) => !isOwn(uri))),
    hasUnlisted: offersResources,
    completer: (of, argument) => {
      if (prompted.has(of)) return upstreamCompleter(hosted, { type: "ref/prompt", name: of }, argument);
      return templates.has(of) ? upstreamCompleter(hosted, { type: "ref/resource", uri: of }, argument) : undefined;
    },
  };
}

type Making<Item, Made> = readonly [items: readonly Item[], make: (item: Item) => Made];

/** Finds an item by name and makes it on first use, since most of thousands are never used. */
function foundByName<Item extends { readonly name: string }, Made>(
  ...either: readonly Making<Item, Made>[]
): (name: string) => Made | undefined {
  const ways = either.map(([items, make]) => ({ items: new Map(items.map((item) => [item.name, item])), make }));
  const made = new Map<string, Made>();
  return (name) => {
    const known = made.get(name);
    if (known) return known;
    for (const { items, make } of ways) {
      const item = items.get(name);
      if (!item) continue;
      const first = make(item);
      made.set(name, first);
      return first;
    }
    return undefined;
  };
}
