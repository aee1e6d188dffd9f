import { appUriOf } from "../../contract/apps.ts";
import { type ContractChange, ToldChanges } from "../../contract/change.ts";
import { compareInTurns } from "../../contract/compare.ts";
import type { AppContract, Contract, PromptContract, ToolContract } from "../../contract/contract.ts";
import { changedText } from "../../contract/model-texts.ts";
import { stripped } from "../../contract/stripped.ts";
import type { HoldPolicy } from "../../entry/hold-fields.ts";
import { cutText } from "../../lib/cut-text.ts";
import { nextTurn, turnTaker } from "../../lib/event-loop.ts";
import type { Limits } from "../../limits/limits.ts";
import { cidOf, cidOfContract, makeCids, sizeOf } from "./structure-cid.ts";
import { takeOver, type TakenItem } from "./take-over.ts";

/**
 * Items that differ from what was approved, or are new where there is no room for them; neither listed nor used until a
 * person approves them.
 */
export interface Held {
  readonly tools: readonly ToolContract[];
  readonly prompts: readonly PromptContract[];
}

export const NOTHING_HELD: Held = { tools: [], prompts: [] };

/**
 * How many tools and prompts at the end of the approved lists came after other approved ones went. They may be the same
 * ones under another name, so they do not count as known when the two contracts are compared.
 */
export interface Arrived {
  readonly tools: number;
  readonly prompts: number;
}

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
  readonly takenOver: readonly TakenItem[];
  /** The whole upstream waits for a person; then nothing is taken over. */
  readonly refused: boolean;
  /** An earlier version of Berth approved it, and fields that it did not keep are not passed on until a person looks. */
  readonly isFirstSeen?: true;
}

/**
 * Compares what an upstream offers with what was approved. New items are taken over. A tool or prompt that changed
 * under its old name is held back, whatever changed, unless its entry's policy takes the change over: a description
 * reaches the model as surely as a schema does. So do the server's own instructions, which stay as they were. What is
 * gone stays approved, so that nothing else comes back under its name; where that fills a list, new items are held back,
 * too. Items that came since then stand behind it in the approved lists. What an earlier version of Berth approved is
 * compared in the fields that it kept, and only those are served. Calls of other callers have their turns meanwhile.
 */
export async function judge(
  known: Contract,
  observed: Contract,
  { hold, limits, arrived = NOTHING_ARRIVED, reviewed }: Judging,
): Promise<Judgement> {
  const nothing = { arrived: NOTHING_ARRIVED, held: NOTHING_HELD, changes: [], takenOver: [], refused: false };
  const asItIs = { ...nothing, served: observed };
  if (await isSameContract(known, observed)) return { ...asItIs, approved: known };
  if (hold.changes !== "none" && isOfBefore(known, observed)) {
    const kept = await stripped(observed);
    const isAsApproved = await isSameContract(known, kept);
    if (isAsApproved && !(await hasMore(observed, kept))) return { ...asItIs, approved: observed };
    const judged = await judge(known, kept, { hold, limits, arrived, reviewed });
    return { ...judged, isFirstSeen: true };
  }
  const { approved, items: takenOver } = await takeOver(known, observed, reviewed, hold, limits);
  if (approved === observed) return { ...asItIs, approved, takenOver };
  await makeCids(approved);
  await makeCids(observed);
  const apps = siftApps(approved.apps, observed.apps, limits.upstreamApps);
  const tools = sift(approved.tools, observed.tools, limits, arrived.tools, (tool) => apps.holds(tool));
  await nextTurn();
  const prompts = sift(approved.prompts, observed.prompts, limits, arrived.prompts);
  await nextTurn();
  const changes = await driftOf(approved, observed, arrived);
  const { description: _, apps: __, ...rest } = observed;
  const told = approved.description === undefined ? rest : { ...rest, description: approved.description };
  const withApps = <Lists extends object>(lists: Lists) => ({ ...told, ...lists, ...apps.approved });
  return {
    served: withApps({ tools: tools.served, prompts: prompts.served }),
    approved: withApps({ tools: tools.approved, prompts: prompts.approved }),
    arrived: { tools: tools.arrived, prompts: prompts.arrived },
    held: { tools: tools.held, prompts: prompts.held },
    changes,
    takenOver,
    refused: hold.refuses && isRefused(hold, changes, [...tools.held, ...prompts.held]),
  };
}

/** Where any change is held back, harmless ones of tools alone are no reason to refuse the whole upstream. */
function isRefused({ changes: which, texts }: HoldPolicy, changes: readonly ContractChange[], held: readonly object[]) {
  if (which === "breaking" && held.length > 0) return true;
  return changes.some(({ effect, isText }) => effect !== "compatible" && (texts || !isText));
}

interface Judging {
  readonly hold: HoldPolicy;
  readonly limits: ApprovedLimits;
  readonly arrived?: Arrived;
  /** The contract that a person, a lock or the first start last approved, if something was taken over since then. */
  readonly reviewed?: Contract | undefined;
}

interface Named {
  readonly name: string;
}

/** The limits of one approved list, the same as those of a list of an upstream. */
export type ApprovedLimits = Pick<
  Limits,
  "upstreamListItems" | "upstreamListBytes" | "contractValues" | "upstreamApps"
>;

/**
 * The apps as they were approved, with new ones as far as there is room; gone ones stay, as gone tools do. A tool is held
 * back with its app: what a person sees and clicks counts as much as what a model reads.
 */
function siftApps(approved: readonly AppContract[] = [], observed: readonly AppContract[] = [], appsMax: number) {
  const known = new Map(approved.map((app) => [app.uri, app]));
  const came = observed.filter(({ uri }) => !known.has(uri)).slice(0, Math.max(0, appsMax - approved.length));
  const apps = [...approved, ...came].sort((one, other) => (one.uri < other.uri ? -1 : 1));
  const cids = new Map(apps.map(({ uri, cid }) => [uri, cid]));
  const held = new Set(observed.filter(({ uri, cid }) => cids.get(uri) !== cid).map(({ uri }) => uri));
  return {
    approved: apps.length > 0 ? { apps } : {},
    holds(tool: ToolContract): boolean {
      const uri = held.size > 0 ? appUriOf(tool) : undefined;
      return uri !== undefined && held.has(uri);
    },
  };
}

function sift<Item extends Named>(
  approved: readonly Item[],
  observed: readonly Item[],
  { upstreamListItems, upstreamListBytes, contractValues }: ApprovedLimits,
  arrivedBefore: number,
  holds: (item: Item) => boolean = () => false,
) {
  const before = byName(approved);
  const now = byName(observed);
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
    if (items + 1 > upstreamListItems || bytes + own.bytes > upstreamListBytes) return false;
    if (values + own.values > contractValues) return false;
    count(item);
    return true;
  };
  const unfit = new Set(observed.filter((item) => !before.has(item.name) && !isFree(item)));
  const gone = approved.filter(({ name }) => !now.has(name));
  const known = byName(gone.length === 0 ? [...approved, ...observed] : allBut(arrivedBefore, approved));
  const fit = observed.filter((item) => !unfit.has(item));
  const came = fit.filter(({ name }) => !known.has(name));
  const asApproved = (item: Item): Item => before.get(item.name) ?? item;
  return {
    served: fit.filter((item) => !isOther(before.get(item.name), item) && !holds(item)),
    approved: [...fit.filter(({ name }) => known.has(name)).map(asApproved), ...gone, ...came.map(asApproved)],
    arrived: came.length,
    held: [
      ...approved.filter((item) => isOther(now.get(item.name), item)),
      ...fit.filter((item) => !isOther(before.get(item.name), item) && holds(item)),
      ...unfit,
    ],
  };
}

function allBut<Item>(last: number, items: readonly Item[]): readonly Item[] {
  return items.slice(0, Math.max(0, items.length - last));
}

/** True when an earlier version of Berth made the first contract, which left out fields that the second has. */
function isOfBefore(approved: Contract, observed: Contract): boolean {
  return approved.complete !== true && observed.complete === true;
}

function asFirstSeen(change: ContractChange): ContractChange {
  return { ...change, message: `${change.message} Berth did not pass it on before: first seen, not reviewed.` };
}

async function hasMore(observed: Contract, kept: Contract): Promise<boolean> {
  return !(await isSameContract(observed, { ...kept, complete: true }));
}

/** Lists the changes, with a note on each tool and prompt that changed only in what no caller's code depends on. */
export async function driftOf(
  approved: Contract,
  observed: Contract,
  arrived = NOTHING_ARRIVED,
): Promise<readonly ContractChange[]> {
  if (await isSameContract(approved, observed)) return [];
  if (isOfBefore(approved, observed)) {
    const kept = await stripped(observed);
    const more = (await compareInTurns(kept, observed)).map(asFirstSeen);
    return new ToldChanges().of([...(await driftOf(approved, kept, arrived)), ...more]);
  }
  await makeCids(approved);
  await makeCids(observed);
  // Most items are the same in both, and have no part in any change.
  const before = without(observed, approved);
  await nextTurn();
  const known = {
    tools: allBut(arrived.tools, approved.tools),
    prompts: allBut(arrived.prompts, approved.prompts),
  };
  const after = without(known, observed);
  await nextTurn();
  const changes = await compareInTurns(before, after);
  await nextTurn();
  const [tools, prompts] = [
    await untold("tool", changes, before.tools, after.tools),
    await untold("prompt", changes, before.prompts, after.prompts),
  ];
  return new ToldChanges().of([...changes, ...tools, ...prompts]);
}

/** A change for each item that differs where the comparison does not look: in text that a model reads, or in form alone. */
async function untold(
  subject: "tool" | "prompt",
  changes: readonly ContractChange[],
  before: readonly Named[],
  after: readonly Named[],
): Promise<ContractChange[]> {
  const takeTurns = turnTaker();
  const known = byName(before);
  const own = changes.filter((change) => change.subject === subject);
  const told = new Set(own.map(({ name }) => name));
  const toldText = new Set(own.filter(({ isText }) => isText).map(({ name }) => name));
  const found: ContractChange[] = [];
  for (const item of after) {
    const [{ name }, old] = [item, known.get(item.name)];
    if (!old || !isOther(old, item) || toldText.has(name)) continue;
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

function byName<Item extends Named>(items: readonly Item[]): ReadonlyMap<string, Item> {
  return new Map(items.map((item) => [item.name, item]));
}

/** A contract without the tools and prompts that are identical in `known`. */
function without(known: Pick<Contract, "tools" | "prompts">, contract: Contract): Contract {
  const tools = byName(known.tools);
  const prompts = byName(known.prompts);
  return {
    ...contract,
    tools: contract.tools.filter((tool) => !isSame(tools.get(tool.name), tool)),
    prompts: contract.prompts.filter((prompt) => !isSame(prompts.get(prompt.name), prompt)),
  };
}

async function isSameContract(one: Contract, other: Contract): Promise<boolean> {
  return one === other || (await cidOfContract(one)) === (await cidOfContract(other));
}

/** True when both exist and differ in anything that they say of themselves. */
function isOther(one: Named | undefined, other: Named): boolean {
  return one !== undefined && !isSame(one, other);
}

function isSame(one: object | undefined, other: object): boolean {
  return one === other || (one !== undefined && cidOf(one) === cidOf(other));
}
