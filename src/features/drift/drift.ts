import { readAppUri } from "../../contract/apps.ts";
import { type ContractChange, ChangeSelection } from "../../contract/change.ts";
import { compareContractsYielding } from "../../contract/compare.ts";
import { contractBounds } from "../../contract/contract-bounds.ts";
import type { AppContract, Contract, PromptContract, SkillContract, ToolContract } from "../../contract/contract.ts";
import { skillFinder } from "../../contract/skills.ts";
import { stableForm } from "../../contract/stable-form.ts";
import { byKey, itemKey, type WithheldItem, type WithheldKind } from "../../contract/withheld-items.ts";
import type { WithholdPolicy } from "../../entry/withhold-fields.ts";
import {
  cidOf,
  cidOfContract,
  isSubstantialChange,
  makeCids,
  makeFormCids,
  sizeOf,
} from "../../host/offers/contract-cids.ts";
import { type Arrived, type Held, NOTHING_HELD } from "../../host/upstreams/remembered.ts";
import { cutText } from "../../lib/cut-text.ts";
import { mapYielding, yieldToCalls, createYielder } from "../../lib/event-loop.ts";
import { appBounds } from "../../upstream/calls/apps.ts";
import { listBounds } from "../../upstream/messages/long-answers.ts";
import { takeOver, type TakenItem } from "./auto-approve.ts";
import { changedText } from "./model-texts.ts";

export const NOTHING_ARRIVED: Arrived = { tools: 0, prompts: 0 };

export interface Judgement {
  /** The contract that clients see. */
  readonly served: Contract;
  /** The contract that counts as approved from here on: the old one, and what needs no person's approval. */
  readonly approved: Contract;
  readonly arrived: Arrived;
  readonly held: Held;
  /** The differences that were neither approved nor taken over. */
  readonly changes: readonly ContractChange[];
  /** The items that the entry's policy has taken over just now. */
  readonly autoApproved: readonly TakenItem[];
  /** The whole upstream waits for a person; then nothing is taken over. */
  readonly refused: boolean;
}

/**
 * Compares what an upstream offers with what was approved. New items are taken over. A tool, prompt or skill that
 * changed under its old name is held back, whatever changed, unless its entry's policy takes the change over: a description
 * reaches the model as surely as a schema does. So do the server's own instructions, which stay as they were. What is
 * gone stays approved, so that nothing else comes back under its name; where that fills a list, new items are held back,
 * too. Items that came since then stand behind it in the approved lists. Calls of other callers have their turns meanwhile.
 */
export async function judge(
  known: Contract,
  observed: Contract,
  { hold, arrived = NOTHING_ARRIVED, reviewed }: Judging,
): Promise<Judgement> {
  const nothing = { arrived: NOTHING_ARRIVED, held: NOTHING_HELD, changes: [], autoApproved: [], refused: false };
  const asItIs = { ...nothing, served: observed };
  if (await isSameContract(known, observed)) return { ...asItIs, approved: known };
  await makeFormCids(known, observed);
  const { approved, items: autoApproved } = await takeOver(known, observed, reviewed, hold);
  if (approved === observed) return { ...asItIs, approved, autoApproved };
  await makeCids(approved);
  const apps = siftApps(approved.apps, observed.apps);
  const tools = sift("tool", approved.tools, observed.tools, arrived.tools, (tool) => apps.holds(tool));
  await yieldToCalls();
  const prompts = sift("prompt", approved.prompts, observed.prompts, arrived.prompts);
  await yieldToCalls();
  const skills = sift("skill", approved.skills ?? [], observed.skills ?? [], 0);
  await yieldToCalls();
  const changes = await driftOf(approved, observed, arrived);
  const held = { tools: tools.held, prompts: prompts.held, skills: skills.held };
  const { description: _, apps: __, skills: ___, ...rest } = observed;
  const told = approved.description === undefined ? rest : { ...rest, description: approved.description };
  const of = (part: "served" | "approved", resources: Contract["resources"]): Contract => ({
    ...told,
    resources,
    tools: tools[part],
    prompts: prompts[part],
    ...apps.approved,
    ...(skills[part].length > 0 && { skills: skills[part] }),
  });
  return {
    served: of("served", withoutFiles(observed.resources, [...skills.approved, ...skills.held], skills.served)),
    approved: of("approved", observed.resources),
    arrived: { tools: tools.arrived, prompts: prompts.arrived },
    held,
    changes,
    autoApproved,
    refused: hold.refuses && isRefused(hold, await substantialDrift(approved, observed, arrived), held),
  };
}

async function substantialDrift(approved: Contract, observed: Contract, arrived: Arrived) {
  const stable = async (contract: Contract): Promise<Contract> => ({
    ...contract,
    tools: await mapYielding(contract.tools, async (tool) => stableForm(tool)),
  });
  return driftOf(await stable(approved), await stable(observed), arrived);
}

/** Where any change is held back, harmless ones of tools alone are no reason to refuse the whole upstream. */
function isRefused({ changes: which, texts }: WithholdPolicy, changes: readonly ContractChange[], held: Held) {
  if (which === "breaking" && Object.values(held).some(({ length }) => length > 0)) return true;
  return changes.some(({ effect, isText }) => effect !== "compatible" && (texts || !isText));
}

interface Judging {
  readonly hold: WithholdPolicy;
  readonly arrived?: Arrived;
  /** The contract that a person, a lock or the first start last approved, if something was taken over since then. */
  readonly reviewed?: Contract | undefined;
}

/**
 * The apps as they were approved, with new ones as far as there is room; gone ones stay, as gone tools do. A tool is held
 * back with its app: what a person sees and clicks counts as much as what a model reads.
 */
function siftApps(approved: readonly AppContract[] = [], observed: readonly AppContract[] = []) {
  const room = Math.max(0, appBounds.upstreamApps - approved.length);
  const known = new Map(approved.map((app) => [app.uri, app]));
  const came = observed.filter(({ uri }) => !known.has(uri)).slice(0, room);
  const apps = [...approved, ...came].sort((one, other) => (one.uri < other.uri ? -1 : 1));
  const cids = new Map(apps.map(({ uri, cid }) => [uri, cid]));
  const held = new Set(observed.filter(({ uri, cid }) => cids.get(uri) !== cid).map(({ uri }) => uri));
  return {
    approved: apps.length > 0 ? { apps } : {},
    holds(tool: ToolContract): boolean {
      const uri = held.size > 0 ? readAppUri(tool) : undefined;
      return uri !== undefined && held.has(uri);
    },
  };
}

/** The resources that are no files of skills which are held back, or gone: those are not read either. */
function withoutFiles(
  resources: Contract["resources"],
  known: readonly SkillContract[],
  served: readonly SkillContract[],
): Contract["resources"] {
  const uris = new Set(served.map(({ uri }) => uri));
  const others = known.filter(({ uri }) => !uris.has(uri));
  if (others.length === 0) return resources;
  const skillsOf = skillFinder(others);
  return resources.filter(({ uri }) => skillsOf(uri).length === 0);
}

function sift<Item extends WithheldItem>(
  kind: WithheldKind,
  approved: readonly Item[],
  observed: readonly Item[],
  arrivedBefore: number,
  holds: (item: Item) => boolean = () => false,
) {
  const nameOf = (item: Item): string => itemKey(kind, item);
  const before = byKey(kind, approved);
  const now = byKey(kind, observed);
  let [items, bytes, values] = [0, 0, 0];
  const count = (item: Item): void => {
    const own = sizeOf(item);
    items += 1;
    bytes += own.bytes;
    values += own.values;
  };
  for (const item of approved) count(item);
  const isFree = (item: Item): boolean => {
    const own = sizeOf(item);
    const { upstreamListItems, upstreamListBytes } = listBounds;
    if (items + 1 > upstreamListItems || bytes + own.bytes > upstreamListBytes) return false;
    if (values + own.values > contractBounds.contractValues) return false;
    count(item);
    return true;
  };
  const unfit = new Set(observed.filter((item) => !before.has(nameOf(item)) && !isFree(item)));
  const gone = approved.filter((item) => !now.has(nameOf(item)));
  const known = byKey(kind, gone.length === 0 ? [...approved, ...observed] : allBut(arrivedBefore, approved));
  const fit = observed.filter((item) => !unfit.has(item));
  const came = fit.filter((item) => !known.has(nameOf(item)));
  const asApproved = (item: Item): Item => before.get(nameOf(item)) ?? item;
  return {
    served: fit.filter((item) => !isSubstantialChange(before.get(nameOf(item)), item) && !holds(item)),
    approved: [...fit.filter((item) => known.has(nameOf(item))).map(asApproved), ...gone, ...came.map(asApproved)],
    arrived: came.length,
    held: [
      ...approved.filter((item) => isSubstantialChange(now.get(nameOf(item)), item)),
      ...fit.filter((item) => !isSubstantialChange(before.get(nameOf(item)), item) && holds(item)),
      ...unfit,
    ],
  };
}

function allBut<Item>(last: number, items: readonly Item[]): readonly Item[] {
  return items.slice(0, Math.max(0, items.length - last));
}

/** Lists the changes, with a note on each tool and prompt that changed only in what no caller's code depends on. */
export async function driftOf(
  approved: Contract,
  observed: Contract,
  arrived = NOTHING_ARRIVED,
): Promise<readonly ContractChange[]> {
  if (await isSameContract(approved, observed)) return [];
  await makeCids(approved);
  await makeCids(observed);
  // Most items are the same in both, and have no part in any change.
  const before = without(observed, approved);
  await yieldToCalls();
  const known = {
    tools: allBut(arrived.tools, approved.tools),
    prompts: allBut(arrived.prompts, approved.prompts),
  };
  const after = without(known, observed);
  await yieldToCalls();
  const changes = await compareContractsYielding(before, after);
  await yieldToCalls();
  const [tools, prompts] = [
    await untold("tool", changes, before.tools, after.tools),
    await untold("prompt", changes, before.prompts, after.prompts),
  ];
  return new ChangeSelection().of([...changes, ...tools, ...prompts]);
}

/** A change for each tool or prompt that differs where the comparison does not look: in text that a model reads, or in form alone. */
async function untold(
  subject: "tool" | "prompt",
  changes: readonly ContractChange[],
  before: readonly (ToolContract | PromptContract)[],
  after: readonly (ToolContract | PromptContract)[],
): Promise<ContractChange[]> {
  const takeTurns = createYielder();
  const known = byKey(subject, before);
  const own = changes.filter((change) => change.subject === subject);
  const told = new Set(own.map(({ name }) => name));
  const toldText = new Set(own.filter(({ isText }) => isText).map(({ name }) => name));
  const found: ContractChange[] = [];
  for (const item of after) {
    const [{ name }, old] = [item, known.get(item.name)];
    if (!old || isSame(old, item) || toldText.has(name)) continue;
    await takeTurns();
    const pointer = changedText(old, item);
    if (pointer !== undefined) {
      const message = `Text that a model reads is new or changed: ${cutText(pointer, POINTER_UNITS_MAX)}.`;
      found.push({ subject, name, pointer, effect: "review", isText: true, message });
    } else if (!told.has(name)) {
      const message = `The ${subject} "${name}" is written differently, and means the same to its callers.`;
      found.push({ subject, name, effect: "review", message });
    }
  }
  return found;
}

const POINTER_UNITS_MAX = 200;

/** A contract without the tools and prompts that are identical in `known`. */
function without(known: Pick<Contract, "tools" | "prompts">, contract: Contract): Contract {
  const tools = byKey("tool", known.tools);
  const prompts = byKey("prompt", known.prompts);
  return {
    ...contract,
    tools: contract.tools.filter((tool) => !isSame(tools.get(tool.name), tool)),
    prompts: contract.prompts.filter((prompt) => !isSame(prompts.get(prompt.name), prompt)),
  };
}

async function isSameContract(one: Contract, other: Contract): Promise<boolean> {
  return one === other || (await cidOfContract(one)) === (await cidOfContract(other));
}

function isSame(one: object | undefined, other: object): boolean {
  return one === other || (one !== undefined && cidOf(one) === cidOf(other));
}
