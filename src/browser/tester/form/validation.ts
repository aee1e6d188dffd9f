import { type OutputUnit, type SchemaDraft, Validator } from "@cfworker/json-schema";
import type { JsonSchemaValidator, jsonSchemaValidator } from "@modelcontextprotocol/client";

/**
 * Checks values against schemas without generating code, which the page's security policy forbids. The client also uses
 * it for results.
 */
export interface Mistake {
  /** The place in the value: names and positions from its top. */
  readonly path: readonly string[];
  readonly message: string;
}

const DRAFT: SchemaDraft = "2020-12";

/** All mistakes in a value that a person can correct. A broken schema finds none. */
export function mistakes(schema: JsonSchema, value: unknown): Mistake[] {
  try {
    const validator = new Validator(structuredClone(schema), DRAFT, false);
    return meaningful(validator.validate(plain(value)).errors).map(toMistake);
  } catch {
    return [];
  }
}

/** True when a value fits a part of a schema; `root` has the definitions that the part may refer to. */
export function fits(part: JsonSchema, value: unknown, root: JsonSchema): boolean {
  const { $defs, definitions } = root;
  const schema = { ...($defs !== undefined && { $defs }), ...(definitions !== undefined && { definitions }) };
  try {
    // The form library reads tuples as before 2020-12, and so do the parts that it asks about.
    const validator = new Validator(structuredClone({ ...schema, allOf: [part] }), "2019-09");
    return value !== undefined && validator.validate(plain(value)).valid;
  } catch {
    return false;
  }
}

export class CfworkerValidator implements jsonSchemaValidator {
  getValidator<T>(schema: JsonSchema): JsonSchemaValidator<T> {
    const validator = new Validator(structuredClone(schema), DRAFT, false);
    return (value: unknown) => {
      const { valid, errors } = validator.validate(value);
      if (valid) return { valid: true, data: value as T, errorMessage: undefined };
      const text = meaningful(errors).map((error) => `${error.instanceLocation}: ${error.error}`);
      return { valid: false, data: undefined, errorMessage: text.join("; ") };
    };
  }
}

/** Drops undefined members, which JSON does not have. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

// These only say that a part is wrong; the part's own mistake follows in the list.
const WRAPPERS = new Set(["properties", "patternProperties", "items", "prefixItems", "allOf", "$ref", "if"]);

function meaningful(errors: readonly OutputUnit[]): OutputUnit[] {
  const found = withoutOtherChoices(errors).filter(({ keyword }) => !WRAPPERS.has(keyword));
  // A member that is not allowed causes a second error, from the schema `false`.
  const unwanted = new Set(found.filter(({ keyword }) => keyword === "false").map((error) => error.instanceLocation));
  return found.filter(({ keyword }) => keyword !== "additionalProperties" || unwanted.size === 0);
}

/**
 * A value that fits no choice has the mistakes of all of them. If only one choice is of the value's kind, keeps its
 * mistakes; otherwise only says that none fits.
 */
function withoutOtherChoices(errors: readonly OutputUnit[]): readonly OutputUnit[] {
  const union = errors.find(({ keyword }) => keyword === "anyOf" || keyword === "oneOf");
  if (!union) return errors;
  const { keywordLocation, instanceLocation } = union;
  const choices = new Map<string, OutputUnit[]>();
  const others: OutputUnit[] = [];
  for (const error of errors) {
    if (error === union) continue;
    const isInside = error.keywordLocation.startsWith(`${keywordLocation}/`);
    const [choice = ""] = isInside ? error.keywordLocation.slice(keywordLocation.length + 1).split("/") : [];
    if (isInside) choices.set(choice, [...(choices.get(choice) ?? []), error]);
    else others.push(error);
  }
  const ofItsKind = [...choices.values()].filter(
    (mistakes) =>
      !mistakes.some(
        (error) =>
          error.keyword === "const" || (error.keyword === "type" && error.instanceLocation === instanceLocation),
      ),
  );
  const rest = withoutOtherChoices(others);
  const [only] = ofItsKind;
  return only && ofItsKind.length === 1 ? [...rest, ...withoutOtherChoices(only)] : [union, ...rest];
}

const REQUIRED = /required property "(.*)"\.$/;
const TYPE = /^Instance type "(.*?)" is invalid. Expected (.*)\.$/;

function toMistake({ instanceLocation, keyword, error }: OutputUnit): Mistake {
  const path = instanceLocation.split("/").slice(1).map(decodePointer);
  const missing = keyword === "required" ? REQUIRED.exec(error)?.[1] : undefined;
  if (missing !== undefined) return { path: [...path, missing], message: "is required" };
  const [, type, expected] = (keyword === "type" && TYPE.exec(error)) || [];
  // A list item that was added and not filled in yet.
  if (type === "null") return { path, message: "is required" };
  if (expected !== undefined) return { path, message: `must be of type ${expected.replaceAll('"', "")}` };
  if (keyword === "false") return { path, message: "is not known here" };
  if (keyword === "anyOf" || keyword === "oneOf") return { path, message: "matches none of the choices" };
  return { path, message: error.replace(/^Instance /, "").replace(/\.$/, "") };
}

function decodePointer(segment: string): string {
  return decodeURIComponent(segment).replaceAll("~1", "/").replaceAll("~0", "~");
}

/** A JSON Schema as a server gives it: it may contain anything. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
