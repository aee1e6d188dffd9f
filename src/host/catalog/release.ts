import { APP_MIME_TYPE } from "../../contract/apps.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import { skillResource, SKILLS_OFFERED } from "../../contract/skills.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { Offered, OfferedPrompt, OfferedResource, OfferedTool } from "../../entry/offer.ts";
import { jsonBlock, jsonBlockYielding, rawBlock, type Block, type Cid } from "../../lib/cid.ts";
import type { Problem } from "../../lib/problem.ts";
import type { PackagesInReach } from "../../packages/package-set.ts";
import type { Contract, Offer, ResourceContract, ResourceTemplateContract } from "../offers/catalog.ts";
import type { ServedSkills } from "./skills.ts";

/** One immutable version of a server, with its implementation. */
export interface Release {
  readonly block: Block;
  /** Its blocks that are not stored otherwise, including `block`. */
  readonly blocks: readonly Block[];
  readonly contract: Contract;
  readonly contractBlock: Block;
  readonly tools: readonly OfferedTool[];
  readonly resources: readonly OfferedResource[];
  readonly prompts: readonly OfferedPrompt[];
  readonly hidden: readonly Offer[];
  readonly problems: readonly Problem[];
}

/** The structure of a release's block. */
export interface ReleaseParts {
  /** Null when the entry itself defines the server. */
  readonly definition: Cid | null;
  readonly bundle: Cid | null;
  /** The entry in `mcps`: a raw block of its JSON, because the order of properties matters. */
  readonly config: Cid;
  readonly contract: Cid;
  /** The packages that its code imports (`PackagesInReach`); absent if none. */
  readonly packages?: Cid;
}

/** Creates a release of what a server offers. Deterministic: equal inputs have equal CIDs. Yields to other calls. */
export async function createRelease(input: {
  definition: Cid | null;
  bundle: Cid | null;
  packages: PackagesInReach | undefined;
  entry: ServerEntry;
  offered: Offered;
  skills: ServedSkills;
  isHidden: (offer: Offer) => boolean;
}): Promise<Release> {
  const { definition, bundle, packages, entry, offered, skills, isHidden } = input;
  const offers = [...listOffers("tool", offered.tools), ...listOffers("prompt", offered.prompts)];
  const hidden = offers.filter(isHidden);
  const isOffered = excluding(hidden);
  const tools = [...offered.tools.values()].filter(({ contract }) => isOffered("tool", contract.name));
  const prompts = [...offered.prompts.values()].filter(({ contract }) => isOffered("prompt", contract.name));
  const resources = [...offered.resources.values()];

  const listed = resources.map(({ contract }) => contract);
  const apps = resources.flatMap(({ source }) =>
    source.kind === "app" ? [{ uri: source.app.uri, cid: source.app.digest }] : [],
  );
  const extensions = {
    ...(apps.length > 0 && { [EXTENSION_UI]: { mimeTypes: [APP_MIME_TYPE] } }),
    ...(skills.contracts.length > 0 && SKILLS_OFFERED),
  };
  const contract: Contract = {
    ...(entry.description !== undefined && { description: entry.description }),
    tools: tools.map((tool) => tool.contract),
    resources: [
      ...listed.filter((item): item is ResourceContract => "uri" in item),
      ...skills.contracts.map(skillResource),
    ],
    resourceTemplates: listed.filter((item): item is ResourceTemplateContract => "uriTemplate" in item),
    prompts: prompts.map((prompt) => prompt.contract),
    ...(apps.length > 0 && { apps: apps.sort((one, other) => (one.uri < other.uri ? -1 : 1)) }),
    ...(skills.contracts.length > 0 && { skills: skills.contracts }),
    ...(Object.keys(extensions).length > 0 && { extensions }),
  };
  const contractBlock = await jsonBlockYielding(contract);
  const configBlock = rawBlock(JSON.stringify(entry.raw));
  const packagesBlock = packages && jsonBlock(packages);
  const parts: ReleaseParts = {
    definition,
    bundle,
    config: configBlock.cid,
    contract: contractBlock.cid,
    ...(packagesBlock && { packages: packagesBlock.cid }),
  };
  const block = jsonBlock(parts);
  const blocks = [block, contractBlock, configBlock, ...(packagesBlock ? [packagesBlock] : [])];
  return { block, blocks, contract, contractBlock, tools, resources, prompts, hidden, problems: offered.problems };
}

/** Uses sets, because any number of offers can be hidden. */
export function excluding(offers: readonly Offer[]): (kind: Offer["kind"], name: string) => boolean {
  const names = { tool: new Set<string>(), prompt: new Set<string>() };
  for (const { kind, name } of offers) names[kind].add(name);
  return (kind, name) => !names[kind].has(name);
}

function listOffers(kind: Offer["kind"], offered: ReadonlyMap<string, unknown>): Offer[] {
  return Array.from(offered.keys(), (name) => ({ kind, name }));
}
