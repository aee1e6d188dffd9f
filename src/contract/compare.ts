import { turnTaker } from "../lib/event-loop.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import type { ContractChange } from "./change.ts";
import { shown, shownJson, verb, type Finding } from "./compare-findings.ts";
import { findRenamed } from "./compare-names.ts";
import { canonical, isSame, demands, isAnnotation } from "./compare-normal.ts";
import { compareSchemas } from "./compare-schemas.ts";
import { comparisonLimits, within, spend, type ComparisonLimits } from "./compare-steps.ts";
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
 * Compares two contracts of a server and judges each difference by its effect on callers, in the order of server,
 * tools, resources, contents of apps, templates and prompts, each in the old contract's order with additions at the end. Pure. Equal
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
export async function compareInTurns(
  before: Contract,
  after: Contract,
  steps = comparisonLimits.steps,
): Promise<ContractChange[]> {
  const takeTurns = turnTaker();
  const comparing = comparison(before, after, { ...comparisonLimits, steps });
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
    ...about("server", "", [...descriptions(before, after), ...extensionChanges(before, after)]),
    ...(yield* compareLists(budget, before.tools, after.tools, {
      subject: "tool",
      keyOf: ({ name }) => name,
      formOf: toolForm,
      likeness: toolLikeness,
      changes: toolChanges,
      lost: "calls to it fail",
    })),
    ...(yield* compareLists(budget, before.resources, after.resources, {
      subject: "resource",
      keyOf: ({ uri }) => uri,
      formOf: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "it can no longer be read",
    })),
    ...appChanges(before, after),
    ...(yield* compareLists(budget, before.resourceTemplates, after.resourceTemplates, {
      subject: "template",
      keyOf: ({ uriTemplate }) => uriTemplate,
      formOf: ({ name, mimeType }) => canonical([name, mimeType]),
      changes: resourceChanges,
      lost: "its URIs can no longer be read",
    })),
    ...(yield* compareLists(budget, before.prompts, after.prompts, {
      subject: "prompt",
      keyOf: ({ name }) => name,
      formOf: ({ arguments: args = [] }) => canonical(args.map(({ name, required }) => [name, required])),
      changes: promptChanges,
      lost: "clients can no longer get it",
    })),
    ...(yield* compareLists(budget, before.skills ?? [], after.skills ?? [], {
      subject: "skill",
      keyOf: ({ uri }) => uri,
      formOf: ({ uri }) => canonical([uri]),
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
    const message = `${gone.size} of the ${subject}s are gone and ${come.size} are new: too many to look for renamed ones.`;
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
      // Not counted together: an unchanged item is read once, however much else changes.
      const { made: isAsItWas } = within(
        stepsAtOnce,
        () => isSame(item, next),
        () => false,
      );
      const tooLarge: Part = {
        effect: "breaking",
        message: `The ${subject} "${name}" has changed too much to be compared further: that counts as breaking.`,
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

/** An app that both contracts have is listed as any resource; its contents are what only this tells of. */
function appChanges({ apps: before = [] }: Contract, { apps: after = [] }: Contract): ContractChange[] {
  const now = new Map(after.map(({ uri, cid }) => [uri, cid]));
  return before.flatMap(({ uri, cid }): ContractChange[] => {
    const next = now.get(uri);
    if (next === undefined || next === cid) return [];
    const message = `The app "${uri}" has other contents: it may show or do something else.`;
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

/** Hosts show it and models read it; a host asks its user anew for any change of a file. */
function skillChanges(before: SkillContract, after: SkillContract): Part[] {
  const parts = [
    ...frontmatterChanges(before.frontmatter, after.frontmatter),
    ...fileChanges(before, after),
    ...otherChanges(before, after, SKILL_FIELDS),
  ];
  if (parts.length > 0) return parts;
  return [{ pointer: "", effect: "review" as const, message: "Its frontmatter or its files are listed otherwise." }];
}

const SKILL_FIELDS: ReadonlySet<string> = new Set(["uri", "frontmatter", "resources"]);

/** Other fields than these two are for hosts, such as the tools that the skill may use unasked (`allowed-tools`). */
function frontmatterChanges(before: SkillFrontmatter, after: SkillFrontmatter): Part[] {
  const fields = ["name", "description"] as const;
  const parts = [...texts(before, after, fields), ...otherChanges(before, after, new Set(fields))];
  return parts.map((part) =>
    Object.assign(part, { pointer: `/frontmatter${part.pointer}`, effect: "review" as const }),
  );
}

function fileChanges(before: SkillContract, after: SkillContract): Part[] {
  if (after.resources === "dynamic" && before.resources !== "dynamic") {
    const message = "Its files are no longer listed: nobody can check what is read of it.";
    return [{ pointer: "/resources", effect: "review", message }];
  }
  const [old, now] = [before, after].map(
    ({ resources }) => new Map(resources === "dynamic" ? [] : resources.map(({ uri, digest }) => [uri, digest])),
  ) as [Map<string, string>, Map<string, string>];
  spend(old.size + now.size);
  const nameOf = (uri: string): string => uri.slice(after.uri.lastIndexOf("/") + 1);
  const files = [...new Set([...old.keys(), ...now.keys()])].filter((uri) => old.get(uri) !== now.get(uri));
  const shownFiles = files
    .slice(0, FILES_TOLD_MAX)
    .map((uri) => `${nameOf(uri)} is ${verb(old.get(uri), now.get(uri))}`);
  const more = files.length > FILES_TOLD_MAX ? `, and ${files.length - FILES_TOLD_MAX} more files are other ones` : "";
  if (files.length === 0) return [];
  const message = `Its files: ${shownFiles.join(", ")}${more}.`;
  return [{ pointer: "/resources", effect: "review", isText: true, message }];
}

const FILES_TOLD_MAX = 10;

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
      partOf({ ...finding, pointer: pointer.replace("/properties/", "/arguments/") }),
    ),
    ...others,
  ];
}

const PROMPT_FIELDS: ReadonlySet<string> = new Set(["name", "title", "description", "arguments"]);

/** Changes of the fields that no rule judges, such as icons and `_meta`: the new value is for a person to see. */
function otherChanges(before: object, after: object, judged: ReadonlySet<string>): Part[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((field) => !judged.has(field));
  spend(fields.length << 2);
  return fields.sort().flatMap((field) => {
    const [old, now] = [before, after].map((item) => (item as Readonly<Record<string, unknown>>)[field]);
    if (isSame(old, now)) return [];
    const pointer = `/${shown(field)}`;
    // It changes with the content, which no contract covers.
    const effect = field === "size" ? ("compatible" as const) : ("review" as const);
    return [{ pointer, effect, message: `The ${shown(field)} is ${verb(old, now)}.` }];
  });
}

const STEPS_OF_ARGUMENT = 5;

/**
 * The arguments of a tool as a text that identifies it under another name. It leaves out whether the tool accepts
 * unnamed arguments, since nobody sends those. A tool with an unknown schema matches no other.
 */
function toolForm({ name, inputSchema }: ToolContract): string {
  if (isUnknown(inputSchema)) return canonical([name]);
  const { additionalProperties: _, ...schema } = rooted(inputSchema);
  return demands(schema);
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

function partOf({ pointer, effect, message, renamedTo, textual }: Finding): Part {
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
    return compareSchemas(rooted(before), rooted(after), "sent", pointer).map(partOf);
  const message = "The old schema of the arguments is unknown: nobody can tell whether old calls still fit.";
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
  if (before && after) return compareSchemas(before, after, "read", pointer).map(partOf);
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
    const message = `${shown(name)} is ${said(now)}, and was ${said(old)}.`;
    const isText = (name as string) === "title";
    return [{ pointer: `/annotations/${shown(name)}`, effect: "review" as const, ...(isText && { isText }), message }];
  });
}

/** No revision constrains these values, so they can be anything. */
function said(value: unknown): string {
  return value === undefined ? "not given" : typeof value === "string" ? shown(value) : shownJson(value);
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
