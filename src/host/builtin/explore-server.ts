import { jsonBlock } from "../../lib/cid.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { identitiesOf } from "../catalog/identity.ts";
import type { CallNotes } from "../calls/observe.ts";
import { builtInTool } from "./built-in-tool.ts";
import { designProfilePrompt } from "./design-prompt.ts";
import {
  callTool,
  draftProfileTool,
  exploreContract,
  exploreTool,
  listProfilesTool,
  saveProfileTool,
} from "./explore-contract.ts";
import { call, draft, explore, list, save, type Workplace } from "./explore-work.ts";
import { ExploredServers, type ExploreSurroundings } from "./explored.ts";
import type { BuiltInServer } from "./with-built-in.ts";

/** The name under which it is served. */
export const EXPLORE = "explore";

/** Every tool except the list of profiles: drafting and saving also start the server. */
const STARTING = new Set([exploreTool, callTool, draftProfileTool, saveProfileTool].map(({ name }) => name));

export interface ExploreOptions extends ExploreSurroundings, Pick<Workplace, "folder"> {
  /** Berth's version: another version may behave differently. */
  readonly version: string;
}

/**
 * A built-in server with which a model explores upstreams and saves what it learns as profiles (J8). It starts any
 * program that its caller names: the operator decides who may call it, and a token must permit starting programs.
 */
export function openExplore(options: ExploreOptions): BuiltInServer & { close(): Promise<void> } {
  const servers = new ExploredServers(options);
  const workplace = { ...options, servers };
  const contract = jsonBlock(exploreContract);
  const release = jsonBlock({ builtIn: EXPLORE, version: options.version, contract: contract.cid });
  const works = [
    [exploreTool, explore],
    [callTool, call],
    [draftProfileTool, draft],
    [saveProfileTool, save],
    [listProfilesTool, list],
  ] as const;
  return {
    name: EXPLORE,
    release: release.cid,
    blocks: [contract, release],
    catalog(notesOf: (tool: string) => CallNotes): Catalog {
      const tools = new Map(
        works.map(([contract, work]) => [
          contract.name,
          builtInTool(contract, notesOf(contract.name), work(workplace)),
        ]),
      );
      return {
        server: EXPLORE,
        release: release.cid,
        contractCid: contract.cid,
        contract: exploreContract,
        hidden: [],
        problems: [],
        starting: STARTING,
        tool: (name) => tools.get(name),
        identity: identitiesOf(exploreContract.tools, (tool) => ({ builtIn: EXPLORE, tool, version: options.version })),
        resource: async () => undefined,
        gives: () => false,
        prompt: (name) => (name === designProfilePrompt.contract.name ? designProfilePrompt : undefined),
        completer: () => undefined,
        memo: new Map(),
      };
    },
    close: () => servers.close(),
  };
}
