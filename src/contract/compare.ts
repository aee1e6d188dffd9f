import { createYielder } from "../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import type { ContractChange } from "./change.ts";
import { shorten, shortenJson, verb, type Finding } from "./compare-findings.ts";
import { findRenamed } from "./compare-names.ts";
import { canonical, isSame, constraintsText, isAnnotation } from "./compare-normal.ts";
import { compareSchemas } from "./compare-schemas.ts";
import { comparisonLimits, runWithinSteps, spend, type ComparisonLimits } from "./compare-steps.ts";
import type {
  Contract,
  ResourceContract,
  ResourceTemplateContract,
  SkillContract,
  SkillFrontmatter,
  PromptContract,
  ToolAnnotations,
  ToolContract,
} from "./contract.ts";

/**
 * Compares two contracts of a server and classifies each difference by its effect on callers, in the order of server,
 * tools, resources, contents of apps, templates, prompts and skills, each in the old contract's order with additions at
 * the end. Pure. Equal contracts have no differences. If every change is compatible, each call that used only
 * properties named in its schema stays valid. Parts that are too large to compare count as breaking.
 */
export function compareContracts(before: Contract, after: Contract, limits = comparisonLimits): ContractChange[] {
  const comparing = comparison(before, after, limits);
  for (;;) {
    const { done, value } = comparing.next();
    if (done) return value;
  }
}

/** `compareContracts` for the serving thread: yields to the event loop between two tools. */
export async function compareContractsYielding(
  before: Contract,
  after: Contract,
  steps = comparisonLimits.steps,
): Promise<ContractChange[]> {
  const yieldToLoop = createYielder();
  const comparing = comparison(before, after, { ...comparisonLimits, steps });
  for (;;) {
    const { done, value } = comparing.next();
    if (done) return value;
    await yieldToLoop();
  }
}

type Comparison = Generator<undefined, ContractChange[], undefined>;

function* comparison(before: Contract, after: Contract, limits: ComparisonLimits): Comparison {
  const budget = { ...limits };
  return [
    ...about("server", "", [...descriptions(before, after), ...extensionChanges(before, after)]),
    ...(yield* compareLists(budget, before.tools, after.tools, {
      subject: "tool",
      key: ({ name }) => name,
      form: toolForm,
      likeness: toolLikeness,
      changes: toolChanges,
      lost: "calls to it fail",
    })),
    ...(yield* compareLists(budget, before.resources, after.resources, {
      subject: "resource",
      key: ({ uri }) => uri,
      form: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "it can no longer be read",
    })),
    ...appChanges(before, after),
    ...(yield* compareLists(budget, before.resourceTemplates, after.resourceTemplates, {
      subject: "template",
      key: ({ uriTemplate }) => uriTemplate,
      form: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "its URIs can no longer be read",
    })),
    ...(yield* compareLists(budget, before.prompts, after.prompts, {
      subject: "prompt",
      key: ({ name }) => name,
      form: ({ arguments: args = [] }) => canonical(args.map(({ name, required }) => [name, required])),
      changes: promptChanges,
      lost: "clients can no longer get it",
    })),
    ...(yield* compareLists(budget, before.skills ?? [], after.skills ?? [], {
      subject: "skill",
      key: ({ uri }) => uri,
      form: ({ uri }) => canonical([uri]),
      changes: skillChanges,
      lost: "hosts can no longer load it",
    })),
  ];
}

type Part = Omit<ContractChange, "subject" | "name">;

function about(subject: ContractChange["subject"], name: string, parts: readonly Part[]): ContractChange[] {
  return parts.map((part) => Object.assign({ subject, name }, part));
}

function extensionChanges({ extensions: before }: Contract, { extensions: after }: Contract): Part[] {
  return otherChanges({ extensions: before }, { extensions: after }, new Set());
}

function descriptions(before: Contract, after: Contract): Part[] {
  const pick = ({ description }: Contract) => (description === undefined ? {} : { description });
  return texts(pick(before), pick(after));
}

interface Kind<Item> {
  readonly subject: ContractChange["subject"];
  readonly key: (item: Item) => string;
  readonly form: (item: Item) => string;
  readonly likeness?: (before: Item, after: Item) => number;
  readonly changes: (before: Item, after: Item) => Part[];
  /** The effect of removing an item. */
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
  const { subject, key, form, likeness, changes, lost } = kind;
  const [old, now] = [before, after].map((items) => new Map(items.map((item) => [key(item), item]))) as [
    Map<string, Item>,
    Map<string, Item>,
  ];
  yield;
  const removed = new Map([...old].filter(([name]) => !now.has(name)));
  yield;
  const added = new Map([...now].filter(([name]) => !old.has(name)));
  const { stepsAtOnce, renamePairs } = budget;
  const runWithin = <T>(work: () => T, otherwise: () => T): T => {
    const { result, used } = runWithinSteps(Math.min(budget.steps, stepsAtOnce), work, otherwise);
    budget.steps -= used;
    return result;
  };
  yield;
  const renamed = runWithin(
    () => findRenamed(removed, added, form, likeness, renamePairs),
    () => undefined,
  );
  const newNames = new Set(renamed?.values());

  const all: ContractChange[] = [];
  if (!renamed) {
    const message = `${removed.size} of the ${subject}s were removed and ${added.size} were added: too many to detect renames.`;
    all.push({ subject, name: "", effect: "review", message });
  }
  for (const [name, item] of old) {
    yield;
    const to = renamed?.get(name);
    const next = now.get(to ?? name);
    if (to !== undefined) {
      const message = `The ${subject} "${name}" is now called "${to}": ${lost} under its old name.`;
      all.push({ subject, name, effect: "breaking", message, renamedTo: to });
    }
    if (next) {
      // Not counted in the budget: an unchanged item is read once, however much else changes.
      const { result: isUnchanged } = runWithinSteps(
        stepsAtOnce,
        () => isSame(item, next),
        () => false,
      );
      const tooLarge: Part = {
        effect: "breaking",
        message: `The ${subject} "${name}" has changed too much to be compared further: that counts as breaking.`,
      };
      if (isUnchanged) continue;
      const parts = runWithin(
        () => changes(item, next),
        () => [tooLarge],
      );
      all.push(...about(subject, name, parts));
    } else all.push({ subject, name, effect: "breaking", message: `The ${subject} "${name}" is removed: ${lost}.` });
  }
  for (const name of added.keys()) {
    if (newNames.has(name)) continue;
    all.push({ subject, name, effect: "compatible", message: `The ${subject} "${name}" is new.` });
  }
  return all;
}

/** An app in both contracts is listed like any resource; only its contents are compared here. */
function appChanges({ apps: before = [] }: Contract, { apps: after = [] }: Contract): ContractChange[] {
  const now = new Map(after.map(({ uri, cid }) => [uri, cid]));
  return before.flatMap(({ uri, cid }): ContractChange[] => {
    const next = now.get(uri);
    if (next === undefined || next === cid) return [];
    const message = `The app "${uri}" has different contents: it may show or do something else.`;
    return [{ subject: "resource", name: uri, pointer: "/contents", effect: "review", message }];
  });
}

type AnyResource = Omit<ResourceContract | ResourceTemplateContract, "uri" | "uriTemplate">;

function resourceChanges(before: AnyResource, after: AnyResource): Part[] {
  const differing = (["name", "mimeType"] as const).filter((field) => before[field] !== after[field]);
  return [
    ...texts(before, after),
    ...differing.map((field) => ({
      pointer: `/${field}`,
      effect: "review" as const,
      message: `The ${field} is ${after[field] ?? "not given"}, and was ${before[field] ?? "not given"}.`,
    })),
    ...otherChanges(before, after, RESOURCE_FIELDS),
  ];
}

const RESOURCE_FIELDS: ReadonlySet<string> = new Set([
  "uri",
  "uriTemplate",
  "name",
  "title",
  "description",
  "mimeType",
]);

/** Hosts display it and models read it; a host asks its user again after any change of a file. */
function skillChanges(before: SkillContract, after: SkillContract): Part[] {
  const parts = [
    ...frontmatterChanges(before.frontmatter, after.frontmatter),
    ...fileChanges(before, after),
    ...otherChanges(before, after, SKILL_FIELDS),
  ];
  if (parts.length > 0) return parts;
  return [
    { pointer: "", effect: "review" as const, message: "Its frontmatter or its files are listed in another form." },
  ];
}

const SKILL_FIELDS: ReadonlySet<string> = new Set(["uri", "frontmatter", "resources"]);

/** Fields other than these two are for hosts, such as the tools that may be used without asking (`allowed-tools`). */
function frontmatterChanges(before: SkillFrontmatter, after: SkillFrontmatter): Part[] {
  const fields = ["name", "description"] as const;
  const parts = [...texts(before, after, fields), ...otherChanges(before, after, new Set(fields))];
  return parts.map((part) =>
    Object.assign(part, { pointer: `/frontmatter${part.pointer}`, effect: "review" as const }),
  );
}

function fileChanges(before: SkillContract, after: SkillContract): Part[] {
  if (after.resources === "dynamic" && before.resources !== "dynamic") {
    const message = "Its files are no longer listed, so what is read of it cannot be verified.";
    return [{ pointer: "/resources", effect: "review", message }];
  }
  const [old, now] = [before, after].map(
    ({ resources }) => new Map(resources === "dynamic" ? [] : resources.map(({ uri, digest }) => [uri, digest])),
  ) as [Map<string, string>, Map<string, string>];
  spend(old.size + now.size);
  const fileName = (uri: string): string => uri.slice(after.uri.lastIndexOf("/") + 1);
  const files = [...new Set([...old.keys(), ...now.keys()])].filter((uri) => old.get(uri) !== now.get(uri));
  const shownFiles = files
    .slice(0, FILES_SHOWN_MAX)
    .map((uri) => `${fileName(uri)} is ${verb(old.get(uri), now.get(uri))}`);
  const more = files.length > FILES_SHOWN_MAX ? `, and ${files.length - FILES_SHOWN_MAX} more files differ` : "";
  if (files.length === 0) return [];
  const message = `Its files: ${shownFiles.join(", ")}${more}.`;
  return [{ pointer: "/resources", effect: "review", isText: true, message }];
}

const FILES_SHOWN_MAX = 10;

function toolChanges(before: ToolContract, after: ToolContract): Part[] {
  // First, before the rest may use up the steps.
  const annotations = annotationChanges(before.annotations, after.annotations);
  const others = otherChanges(before, after, TOOL_FIELDS);
  return [
    ...texts(before, after),
    ...rootTypes(before, after),
    ...inputChanges(before.inputSchema, after.inputSchema),
    ...outputChanges(before.outputSchema, after.outputSchema),
    ...annotations,
    ...others,
  ];
}

const TOOL_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "title",
  "description",
  "inputSchema",
  "outputSchema",
  "annotations",
]);

function promptChanges(before: PromptContract, after: PromptContract): Part[] {
  const others = otherChanges(before, after, PROMPT_FIELDS);
  for (const { arguments: args = [] } of [before, after]) spend(STEPS_OF_ARGUMENT * args.length);
  const findings = compareSchemas(argumentsSchema(before), argumentsSchema(after), "sent", "");
  return [
    ...texts(before, after),
    ...findings.map(({ pointer, ...finding }) =>
      toPart({ ...finding, pointer: pointer.replace("/properties/", "/arguments/") }),
    ),
    ...others,
  ];
}

const PROMPT_FIELDS: ReadonlySet<string> = new Set(["name", "title", "description", "arguments"]);

/** Changes of fields without a rule, such as icons and `_meta`: a person must review the new value. */
function otherChanges(before: object, after: object, covered: ReadonlySet<string>): Part[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((field) => !covered.has(field));
  spend(fields.length << 2);
  return fields.sort().flatMap((field) => {
    const [old, now] = [before, after].map((item) => (item as Readonly<Record<string, unknown>>)[field]);
    if (isSame(old, now)) return [];
    const pointer = `/${shorten(field)}`;
    // The size changes with the content, which no contract covers.
    const effect = field === "size" ? ("compatible" as const) : ("review" as const);
    return [{ pointer, effect, message: `The ${shorten(field)} is ${verb(old, now)}.` }];
  });
}

const STEPS_OF_ARGUMENT = 5;

/**
 * The arguments of a tool as a text that identifies it under another name. It omits whether the tool accepts unnamed
 * arguments, because nobody sends those. A tool with an unknown schema matches no other.
 */
function toolForm({ name, inputSchema }: ToolContract): string {
  if (isUnknown(inputSchema)) return canonical([name]);
  const { additionalProperties: _, ...schema } = rooted(inputSchema);
  return constraintsText(schema);
}

/** From 0 to 1: the share of arguments that two tools have in common; an equal description counts as much. */
function toolLikeness(before: ToolContract, after: ToolContract): number {
  const [old, now] = [before, after].map(({ inputSchema: { properties } }) =>
    Object.keys(isObject(properties) ? properties : {}),
  );
  spend(old!.length + now!.length);
  const names = new Set(now);
  const shared = old!.filter((name) => names.has(name)).length;
  const likeness = old!.length + now!.length === 0 ? 0.25 : (2 * shared) / (old!.length + now!.length);
  return before.description !== undefined && before.description === after.description ? 1 : Math.max(likeness, 0.25);
}

function toPart({ pointer, effect, message, renamedTo, textual }: Finding): Part {
  return {
    pointer,
    effect,
    ...(textual === "text" && { isText: true }),
    message,
    ...(renamedTo !== undefined && { renamedTo }),
  };
}

type Texts = { readonly [Field in TextField]?: string };
type TextField = "name" | "title" | "description";

function texts(before: Texts, after: Texts, fields: readonly TextField[] = ["title", "description"]): Part[] {
  const differing = fields.filter((field) => before[field] !== after[field]);
  return differing.map((field) => {
    const message = `The ${field} is ${verb(before[field], after[field])}.`;
    return { pointer: `/${field}`, effect: "review", isText: true, message };
  });
}

function inputChanges(before: JsonSchema, after: JsonSchema): Part[] {
  const pointer = "/inputSchema";
  if (!isUnknown(before) || isUnknown(after))
    return compareSchemas(rooted(before), rooted(after), "sent", pointer).map(toPart);
  const message = "The old schema of the arguments is unknown: whether old calls still fit is unclear.";
  return [{ pointer, effect: "review", message }];
}

/** True for a stored schema without any arguments, which no server may list: they were unknown when it was stored. */
function isUnknown(schema: JsonSchema): boolean {
  const keywords = Object.keys(schema);
  spend(keywords.length);
  return keywords.every(isAnnotation);
}

/** Arguments are an object, even if the schema does not say so. */
function rooted(schema: JsonSchema): JsonSchema {
  return schema["type"] === undefined ? { ...schema, type: "object" } : schema;
}

function rootTypes(before: ToolContract, after: ToolContract): Part[] {
  if (before.inputSchema["type"] === undefined || after.inputSchema["type"] !== undefined) return [];
  const message =
    'The schema of the arguments no longer has "type": "object": many clients refuse the whole list of tools.';
  return [{ pointer: "/inputSchema/type", effect: "breaking", message }];
}

function outputChanges(before: JsonSchema | undefined, after: JsonSchema | undefined): Part[] {
  const pointer = "/outputSchema";
  if (before && after) return compareSchemas(before, after, "read", pointer).map(toPart);
  if (after) return [{ pointer, effect: "compatible", message: "The result now has a schema." }];
  if (!before) return [];
  return [
    {
      pointer,
      effect: "breaking",
      message: "The result no longer has a schema: readers find no structured content.",
    },
  ];
}

function annotationChanges(before: ToolAnnotations = {}, after: ToolAnnotations = {}): Part[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort() as (keyof ToolAnnotations)[];
  spend(names.length << 2);
  return names.flatMap((name) => {
    const [old, now] = [before[name], after[name]];
    if (isSame(old, now)) return [];
    const message = `${shorten(name)} is ${formatValue(now)}, and was ${formatValue(old)}.`;
    const isText = (name as string) === "title";
    return [
      { pointer: `/annotations/${shorten(name)}`, effect: "review" as const, ...(isText && { isText }), message },
    ];
  });
}

/** No protocol revision constrains these values, so they can be anything. */
function formatValue(value: unknown): string {
  return value === undefined ? "not given" : typeof value === "string" ? shorten(value) : shortenJson(value);
}

/** Arguments of prompts are strings. */
function argumentsSchema({ arguments: args = [] }: PromptContract): JsonSchema {
  return {
    type: "object",
    properties: Object.fromEntries(
      args.map(({ name, description }) => [
        name,
        { type: "string", ...(description !== undefined && { description }) },
      ]),
    ),
    required: args.filter(({ required }) => required).map(({ name }) => name),
  };
}
