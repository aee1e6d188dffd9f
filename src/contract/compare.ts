import type { ContractChange } from "./change.ts";
import { canonical, isSame } from "./compare-normal.ts";
import { findRenamed } from "./compare-names.ts";
import { comparisonLimits, within, type ComparisonLimits } from "./compare-steps.ts";
import { promptChanges, texts, toolChanges, toolForm, toolLikeness } from "./compare-tools.ts";
import { turnTaker } from "../lib/event-loop.ts";
import type { Contract, ResourceContract, ResourceTemplateContract } from "./contract.ts";

/**
 * Compares two contracts of a server and judges each difference by its effect on callers, in the order of server,
 * tools, resources, templates and prompts, each in the old contract's order with additions at the end. Pure. Equal
 * contracts have no differences. If every change is compatible, each call that used only properties named in its schema
 * stays valid. Parts that are too large to compare count as breaking.
 */
export function compareContracts(before: Contract, after: Contract, limits = comparisonLimits): ContractChange[] {
  const comparing = comparison(before, after, limits);
  for (;;) {
    const { done, value } = comparing.next();
    if (done) return value;
  }
}

/** The same for the serving thread: other calls get their turn between two tools. */
export async function compareInTurns(before: Contract, after: Contract): Promise<ContractChange[]> {
  const takeTurns = turnTaker();
  const comparing = comparison(before, after, comparisonLimits);
  for (;;) {
    const { done, value } = comparing.next();
    if (done) return value;
    await takeTurns();
  }
}

type Comparison = Generator<undefined, ContractChange[], undefined>;

function* comparison(before: Contract, after: Contract, limits: ComparisonLimits): Comparison {
  const budget = { ...limits };
  return [
    ...about("server", "", descriptions(before, after)),
    ...(yield* compareLists(budget, before.tools, after.tools, {
      subject: "tool",
      keyOf: ({ name }) => name,
      formOf: toolForm,
      likeness: toolLikeness,
      changes: toolChanges,
      lost: "calls of it fail",
    })),
    ...(yield* compareLists(budget, before.resources, after.resources, {
      subject: "resource",
      keyOf: ({ uri }) => uri,
      formOf: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "it cannot be read any more",
    })),
    ...(yield* compareLists(budget, before.resourceTemplates, after.resourceTemplates, {
      subject: "template",
      keyOf: ({ uriTemplate }) => uriTemplate,
      formOf: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "its URIs cannot be read any more",
    })),
    ...(yield* compareLists(budget, before.prompts, after.prompts, {
      subject: "prompt",
      keyOf: ({ name }) => name,
      formOf: ({ arguments: args = [] }) => canonical(args.map(({ name, required }) => [name, required])),
      changes: promptChanges,
      lost: "it cannot be got any more",
    })),
  ];
}

type Part = Omit<ContractChange, "subject" | "name">;

function about(subject: ContractChange["subject"], name: string, parts: readonly Part[]): ContractChange[] {
  return parts.map((part) => Object.assign({ subject, name }, part));
}

function descriptions(before: Contract, after: Contract): Part[] {
  const of = ({ description }: Contract) => (description === undefined ? {} : { description });
  return texts(of(before), of(after));
}

interface Kind<Item> {
  readonly subject: ContractChange["subject"];
  readonly keyOf: (item: Item) => string;
  readonly formOf: (item: Item) => string;
  readonly likeness?: (before: Item, after: Item) => number;
  readonly changes: (before: Item, after: Item) => Part[];
  /** The effect of removing one. */
  readonly lost: string;
}

/** The work that a comparison may still do. */
interface Budget extends ComparisonLimits {
  steps: number;
}

function* compareLists<Item>(
  budget: Budget,
  before: readonly Item[],
  after: readonly Item[],
  kind: Kind<Item>,
): Comparison {
  const { subject, keyOf, formOf, likeness, changes, lost } = kind;
  const [old, now] = [before, after].map((items) => new Map(items.map((item) => [keyOf(item), item]))) as [
    Map<string, Item>,
    Map<string, Item>,
  ];
  yield;
  const gone = new Map([...old].filter(([name]) => !now.has(name)));
  yield;
  const come = new Map([...now].filter(([name]) => !old.has(name)));
  const { stepsAtOnce, renamePairs } = budget;
  const spendOn = <T>(work: () => T, otherwise: () => T): T => {
    const { made, used } = within(Math.min(budget.steps, stepsAtOnce), work, otherwise);
    budget.steps -= used;
    return made;
  };
  yield;
  const renamed = spendOn(
    () => findRenamed(gone, come, formOf, likeness, renamePairs),
    () => undefined,
  );
  const newNames = new Set(renamed?.values());

  const all: ContractChange[] = [];
  if (!renamed) {
    const message = `Of the ${subject}s ${gone.size} are gone and ${come.size} are new: too many to look for one under another name.`;
    all.push({ subject, name: "", effect: "review", message });
  }
  for (const [name, item] of old) {
    yield;
    const to = renamed?.get(name);
    const next = now.get(to ?? name);
    if (to !== undefined) {
      const message = `The ${subject} "${name}" is called "${to}" now: ${lost} under its old name.`;
      all.push({ subject, name, effect: "breaking", message, renamedTo: to });
    }
    if (next) {
      // Not counted together: an unchanged item is read once, however much else changes.
      const { made: isAsItWas } = within(
        stepsAtOnce,
        () => isSame(item, next),
        () => false,
      );
      const tooLarge: Part = {
        effect: "breaking",
        message: `The ${subject} "${name}" is another one, and too much has changed to compare it further: that counts as breaking.`,
      };
      if (isAsItWas) continue;
      const parts = spendOn(
        () => changes(item, next),
        () => [tooLarge],
      );
      all.push(...about(subject, name, parts));
    } else all.push({ subject, name, effect: "breaking", message: `The ${subject} "${name}" is removed: ${lost}.` });
  }
  for (const name of come.keys()) {
    if (newNames.has(name)) continue;
    all.push({ subject, name, effect: "compatible", message: `The ${subject} "${name}" is new.` });
  }
  return all;
}

type AnyResource = Omit<ResourceContract | ResourceTemplateContract, "uri" | "uriTemplate">;

function resourceChanges(before: AnyResource, after: AnyResource): Part[] {
  const differing = (["name", "mimeType"] as const).filter((field) => before[field] !== after[field]);
  return [
    ...texts(before, after),
    ...differing.map((field) => ({
      pointer: `/${field}`,
      effect: "review" as const,
      message: `The ${field} is ${after[field] ?? "not said"}, and was ${before[field] ?? "not said"}.`,
    })),
  ];
}
