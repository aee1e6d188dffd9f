import { compareContractsYielding } from "../../contract/compare.ts";
import { contractBounds } from "../../contract/contract-bounds.ts";
import type { Contract } from "../../contract/contract.ts";
import { stableForm } from "../../contract/stable-form.ts";
import {
  byKey,
  withheldKinds,
  listItems,
  itemKey,
  type WithheldItem,
  type WithheldKind,
} from "../../contract/withheld-items.ts";
import type { WithholdPolicy } from "../../entry/withhold-fields.ts";
import { cidOf, isSubstantialChange, makeCids, sizeOf } from "../../host/offers/contract-cids.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import { listBounds } from "../../upstream/messages/long-answers.ts";
import { changedText } from "./model-texts.ts";

/** The part of an offer that the policy of an entry takes over without a person. */
export interface AutoApproved {
  /** The contract that counts as approved from here on. */
  readonly approved: Contract;
  /** The tools, prompts and skills that differ from what was approved before; with the server itself, by an empty name. */
  readonly items: readonly TakenItem[];
}

export interface TakenItem {
  readonly subject: "server" | WithheldKind;
  readonly name: string;
}

/**
 * Takes over each tool, prompt and skill whose change is known to be harmless, where only other changes are held back. It must
 * be so against what was taken over last, and against what a person last `reviewed`: many small steps lead nowhere that
 * one step would not lead. All else stays as it was approved, and is judged after that. A change that was not compared
 * to its end is not known to be harmless.
 */
export async function takeOver(
  approved: Contract,
  observed: Contract,
  reviewed: Contract | undefined,
  { changes: held, texts }: WithholdPolicy,
): Promise<AutoApproved> {
  if (held === "any") return { approved, items: [] };
  await makeCids(approved);
  await makeCids(observed);
  if (held === "none") return { approved: observed, items: differing(approved, observed) };
  if (reviewed) await makeCids(reviewed);
  const found = new Map<string, Found>();
  for (const subject of withheldKinds) {
    const before = byKey(subject, listItems(approved, subject));
    for (const [name, after] of onlyOnes(subject, listItems(observed, subject))) {
      const old = before.get(name);
      if (isSubstantialChange(old, after)) found.set(`${subject} ${name}`, { subject, after });
    }
  }
  await yieldToCalls();
  const isHarmless = await harmlessAgainst(approved, found, texts);
  const wasHarmless = reviewed ? await harmlessAgainst(reviewed, found, texts) : () => true;
  const taken = [...found].filter(([key]) => isHarmless(key) && wasHarmless(key)).map(([, each]) => each);
  await yieldToCalls();
  const tools = replaced("tool", approved.tools, taken);
  const prompts = replaced("prompt", approved.prompts, taken);
  const skills = replaced("skill", approved.skills ?? [], taken);
  const isTold = !texts && approved.description !== observed.description;
  const { description, ...rest } = approved;
  const told = isTold ? observed.description : description;
  return {
    approved: {
      ...rest,
      ...(told !== undefined && { description: told }),
      tools: tools.items,
      prompts: prompts.items,
      ...(skills.items.length > 0 && { skills: skills.items }),
    },
    items: [
      ...(isTold ? [{ subject: "server" as const, name: "" }] : []),
      ...tools.taken,
      ...prompts.taken,
      ...skills.taken,
    ],
  };
}

/** An item that differs from the approved one. */
interface Found {
  readonly subject: WithheldKind;
  readonly after: WithheldItem;
}

/** The items whose name no other one has: of two with one name, nobody can tell which takes whose place. */
function onlyOnes(subject: WithheldKind, items: readonly WithheldItem[]): [name: string, item: WithheldItem][] {
  const counts = new Map<string, number>();
  const named = items.map((item): [string, WithheldItem] => [itemKey(subject, item), item]);
  for (const [name] of named) counts.set(name, (counts.get(name) ?? 0) + 1);
  return named.filter(([name]) => counts.get(name) === 1);
}

/** Compares all that was found with the items of one contract at once, so that the work is limited as a whole. */
async function harmlessAgainst(
  contract: Contract,
  found: ReadonlyMap<string, Found>,
  texts: boolean,
): Promise<(key: string) => boolean> {
  const known = new Map(
    withheldKinds.flatMap((subject) =>
      listItems(contract, subject).map((item): [string, WithheldItem] => [
        `${subject} ${itemKey(subject, item)}`,
        item,
      ]),
    ),
  );
  const pairs = [...found].flatMap(([key, { subject, after }]) => {
    const before = known.get(key);
    return before ? [{ key, subject, before: stableForm(before), after: stableForm(after) }] : [];
  });
  const side = (of: "before" | "after"): Contract => {
    const each = <Item extends WithheldItem>(wanted: WithheldKind): Item[] =>
      pairs.filter(({ subject }) => subject === wanted).map((pair) => pair[of] as Item);
    return {
      tools: each("tool"),
      prompts: each("prompt"),
      resources: [],
      resourceTemplates: [],
      skills: each("skill"),
    };
  };
  const harmful = new Set<string>();
  for (const { subject, name, effect, isText } of await compareContractsYielding(side("before"), side("after"))) {
    if (effect !== "compatible" && !isText) harmful.add(`${subject} ${name}`);
  }
  for (const { key, subject, before, after } of pairs) {
    if (harmful.has(key)) continue;
    // All of a skill is compared, and whatever else changed in it is text that a model reads.
    const isKnown =
      subject === "skill"
        ? !texts
        : isWhollyCompared(before, after) && !(texts && changedText(before, after) !== undefined);
    if (!isKnown) harmful.add(key);
    await yieldToCalls();
  }
  // An item that was not there yet came as a whole, and was served like all that is new.
  return (key) => !harmful.has(key);
}

/** The fields whose differences the comparison judges; what another one means to a client is not known. */
const COMPARED: ReadonlySet<string> = new Set(
  "name title description inputSchema outputSchema annotations arguments".split(" "),
);

function isWhollyCompared(before: WithheldItem, after: WithheldItem): boolean {
  const others = (item: WithheldItem): object =>
    Object.fromEntries(Object.entries(item).filter(([field]) => !COMPARED.has(field)));
  return cidOf(others(before)) === cidOf(others(after)) && !refersElsewhere(before) && !refersElsewhere(after);
}

/** Keywords by which a schema means a place that the comparison does not look for. */
const PLACES = new Set("$id $anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef".split(" "));

function refersElsewhere(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(refersElsewhere);
  if (!isObject(value)) return false;
  return Object.entries(value).some(
    ([key, inner]) =>
      PLACES.has(key) ||
      (key === "$ref" && typeof inner === "string" && !/^#(?:\/|$)/.test(inner)) ||
      refersElsewhere(inner),
  );
}

/** Replaces items by those of the same name, as far as the whole list fits its limits, or no item grows. */
function replaced<Item extends WithheldItem>(
  kind: WithheldKind,
  approved: readonly Item[],
  found: readonly Found[],
): { readonly items: readonly Item[]; readonly taken: readonly TakenItem[] } {
  const by = found.filter(({ subject }) => subject === kind).map(({ after }) => after as Item);
  if (by.length === 0) return { items: approved, taken: [] };
  let [bytes, values] = [0, 0];
  for (const item of approved) {
    const own = sizeOf(item);
    bytes += own.bytes;
    values += own.values;
  }
  const next = byKey(kind, by);
  const taken: TakenItem[] = [];
  const items = approved.map((item) => {
    const name = itemKey(kind, item);
    const now = next.get(name);
    if (!now) return item;
    const [old, own] = [sizeOf(item), sizeOf(now)];
    const [moreBytes, moreValues] = [own.bytes - old.bytes, own.values - old.values];
    if (moreBytes > 0 && bytes + moreBytes > listBounds.upstreamListBytes) return item;
    if (moreValues > 0 && values + moreValues > contractBounds.contractValues) return item;
    bytes += moreBytes;
    values += moreValues;
    taken.push({ subject: kind, name });
    return now;
  });
  return { items, taken };
}

/** The tools, prompts and skills that are not the same in both, gone or new ones too; and the server, for all else but resources. */
function differing(approved: Contract, observed: Contract): TakenItem[] {
  const own = ({ description = "", extensions = {}, apps = [] }: Contract): object => ({
    description,
    extensions,
    apps,
  });
  const items: TakenItem[] = cidOf(own(approved)) === cidOf(own(observed)) ? [] : [{ subject: "server", name: "" }];
  for (const subject of withheldKinds) {
    const [before, now] = [approved, observed].map((contract) => byKey(subject, listItems(contract, subject))) as [
      ReadonlyMap<string, WithheldItem>,
      ReadonlyMap<string, WithheldItem>,
    ];
    for (const name of new Set([...before.keys(), ...now.keys()])) {
      const [old, own] = [before.get(name), now.get(name)];
      if (!old || !own || cidOf(old) !== cidOf(own)) items.push({ subject, name });
    }
  }
  return items;
}
