import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { JsonObject } from "../../json.ts";
import type { Catalog } from "../catalog.ts";
import type { CallNotes } from "../observe.ts";
import type { HostedUpstream } from "./hosted.ts";
import type { Held } from "./judge.ts";
import { heldPrompt, upstreamCompleter, upstreamPrompt, upstreamResource } from "./offers.ts";
import { heldTool, upstreamTool, type UpstreamToolParts } from "./tool.ts";

/** What is served of a server of others, and by what of its own. */
export interface Served extends Pick<UpstreamToolParts, "limits"> {
  readonly contract: Contract;
  readonly originals: ReadonlyMap<string, ToolContract>;
  /** Not listed; who knows one from before is told why it is not used. */
  readonly held: Held;
  /** What a tool finds in its call's context, by the name that clients know. */
  readonly optionsOf: (tool: string) => JsonObject;
  /** Of the tool that clients know by this name. */
  readonly notesOf: (tool: string) => CallNotes;
  /** Hears of a tool that contradicts itself. */
  readonly warn: (tool: string, message: string) => void;
}

/** How a contract of a server of others is carried out: by the server, whatever it takes to reach it. */
export function upstreamParts(
  hosted: HostedUpstream,
  { contract, originals, held, optionsOf, notesOf, limits, warn }: Served,
): Pick<Catalog, "tool" | "resource" | "gives" | "prompt" | "completer"> {
  const partsOf = (tool: ToolContract): UpstreamToolParts => ({
    hosted,
    original: originals.get(tool.name) ?? tool,
    configured: optionsOf(tool.name),
    notes: notesOf(tool.name),
    limits,
    warn: (message) => warn(tool.name, message),
  });
  const tools = new Map([
    ...held.tools.map((tool) => [tool.name, heldTool(tool, notesOf(tool.name))] as const),
    ...contract.tools.map((tool) => [tool.name, upstreamTool(tool, partsOf(tool))] as const),
  ]);
  const prompts = new Map([
    ...held.prompts.map((prompt) => [prompt.name, heldPrompt(prompt)] as const),
    ...contract.prompts.map((prompt) => [prompt.name, upstreamPrompt(hosted, prompt)] as const),
  ]);
  const prompted = new Set(contract.prompts.map(({ name }) => name));
  const offersResources = contract.resources.length > 0 || contract.resourceTemplates.length > 0;
  const templates = new Set(contract.resourceTemplates.map(({ uriTemplate }) => uriTemplate));
  return {
    tool: (name) => tools.get(name),
    prompt: (name) => prompts.get(name),
    // Servers have resources that they do not list.
    resource: async (uri) => (offersResources ? upstreamResource(hosted, uri) : undefined),
    gives: () => offersResources,
    completer: (of, argument) => {
      if (prompted.has(of)) return upstreamCompleter(hosted, { type: "ref/prompt", name: of }, argument);
      return templates.has(of) ? upstreamCompleter(hosted, { type: "ref/resource", uri: of }, argument) : undefined;
    },
  };
}
