import type { ContractChange } from "./change.ts";
import { compareSchemas } from "./compare-schemas.ts";
import { canonical, demands, isAnnotation, isSame } from "./compare-normal.ts";
import { spend } from "./compare-steps.ts";
import { shown, shownJson, type Finding } from "./compare-findings.ts";
import { isObject, type JsonSchema } from "../lib/json.ts";
import type { PromptContract, ToolAnnotations, ToolContract } from "./contract.ts";

/** Compares one tool or prompt that exists before and after. */

type Part = Pick<ContractChange, "pointer" | "effect" | "message" | "renamedTo">;

export function toolChanges(before: ToolContract, after: ToolContract): Part[] {
  // First, before the rest may use up the steps.
  const annotations = annotationChanges(before.annotations, after.annotations);
  return [
    ...texts(before, after),
    ...rootTypes(before, after),
    ...inputChanges(before.inputSchema, after.inputSchema),
    ...outputChanges(before.outputSchema, after.outputSchema),
    ...annotations,
  ];
}

export function promptChanges(before: PromptContract, after: PromptContract): Part[] {
  for (const { arguments: args = [] } of [before, after]) spend(STEPS_OF_ARGUMENT * args.length);
  const findings = compareSchemas(argumentsSchema(before), argumentsSchema(after), "sent", "");
  return [
    ...texts(before, after),
    ...findings.map(({ pointer, ...finding }) =>
      partOf({ ...finding, pointer: pointer.replace("/properties/", "/arguments/") }),
    ),
  ];
}

const STEPS_OF_ARGUMENT = 5;

/**
 * The arguments of a tool as a text that identifies it under another name. It leaves out whether the tool accepts
 * unnamed arguments, since nobody sends those. A tool with an unknown schema matches no other.
 */
export function toolForm({ name, inputSchema }: ToolContract): string {
  if (isUnknown(inputSchema)) return canonical([name]);
  const { additionalProperties: _, ...schema } = rooted(inputSchema);
  return demands(schema);
}

/** From 0 to 1: the share of arguments that two tools have in common; an equal description counts as much. */
export function toolLikeness(before: ToolContract, after: ToolContract): number {
  const [old, now] = [before, after].map(({ inputSchema: { properties } }) =>
    Object.keys(isObject(properties) ? properties : {}),
  );
  spend(old!.length + now!.length);
  const names = new Set(now);
  const shared = old!.filter((name) => names.has(name)).length;
  const likeness = old!.length + now!.length === 0 ? 0.25 : (2 * shared) / (old!.length + now!.length);
  return before.description !== undefined && before.description === after.description ? 1 : Math.max(likeness, 0.25);
}

function partOf({ pointer, effect, message, renamedTo }: Finding): Part {
  return { pointer, effect, message, ...(renamedTo !== undefined && { renamedTo }) };
}

export function texts(
  before: { readonly title?: string; readonly description?: string },
  after: { readonly title?: string; readonly description?: string },
): Part[] {
  return (["title", "description"] as const).flatMap((field) => {
    if (before[field] === after[field]) return [];
    const verb = before[field] === undefined ? "new" : after[field] === undefined ? "removed" : "changed";
    return [{ pointer: `/${field}`, effect: "review" as const, message: `The ${field} is ${verb}.` }];
  });
}

function inputChanges(before: JsonSchema, after: JsonSchema): Part[] {
  const pointer = "/inputSchema";
  if (!isUnknown(before) || isUnknown(after))
    return compareSchemas(rooted(before), rooted(after), "sent", pointer).map(partOf);
  const message =
    "The old schema of the arguments is unknown: nothing tells whether calls that were made for it still fit.";
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
    'The schema of the arguments has no "type": "object" any more: many clients refuse the whole list of tools.';
  return [{ pointer: "/inputSchema/type", effect: "breaking", message }];
}

function outputChanges(before: JsonSchema | undefined, after: JsonSchema | undefined): Part[] {
  const pointer = "/outputSchema";
  if (before && after) return compareSchemas(before, after, "read", pointer).map(partOf);
  if (after) return [{ pointer, effect: "compatible", message: "What the result looks like is said now." }];
  if (!before) return [];
  return [
    {
      pointer,
      effect: "breaking",
      message: "What the result looks like is not said any more: readers find no structured content.",
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
    return [{ pointer: `/annotations/${shown(name)}`, effect: "review" as const, message }];
  });
}

/** No revision constrains these values, so they can be anything. */
function said(value: unknown): string {
  return value === undefined ? "not said" : typeof value === "string" ? shown(value) : shownJson(value);
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
