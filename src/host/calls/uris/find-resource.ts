import {
  isTemplate,
  URI_UNITS_MAX,
  parseUriTemplate,
  type Expression,
  type Variable,
} from "../../../discover/uri-template.ts";
import { BerthError } from "../../../lib/errors.ts";
import { createYielder } from "../../../lib/event-loop.ts";
import type { JsonObject, JsonSchema } from "../../../lib/json.ts";
import type { ValidatorOf } from "../../checks/checks.ts";

/** The fields needed to find a resource. */
export interface Findable {
  readonly name: string;
  /** A URI, or a template if it contains `{…}`. */
  readonly uri: string;
  readonly mimeType?: string;
  /** Schema of the template's variables; strings by default. */
  readonly inputSchema?: JsonSchema;
}

/** Opens a URI; `args` are the values of the template's variables. */
export type Open<Found> = (uri: string, args: JsonObject) => Found;

/** Finds an exact match, or the first matching template. Rejects with `invalid_params` if matching is too expensive. */
export type Find<Found> = (uri: string) => Promise<Found | undefined>;

export function createUriFinder<Found>(
  resources: readonly (Findable & { readonly open: Open<Found> })[],
  validatorOf?: ValidatorOf,
): Find<Found> {
  const exact = new Map<string, Found>();
  const templates: { start: string; fit: () => CompiledTemplate; open: Open<Found> }[] = [];
  for (const resource of resources) {
    const { uri, open } = resource;
    if (isTemplate(uri)) templates.push({ start: literalPrefix(uri), fit: lazyTemplate(resource, validatorOf), open });
    else exact.set(uri, open(uri, {}));
  }
  return async (uri) => {
    const named = exact.get(uri);
    if (named || uri.length > URI_UNITS_MAX) return named;
    const yieldIfDue = createYielder();
    let steps = 0;
    for (const { start, fit, open } of templates) {
      if (!uri.startsWith(start)) continue;
      await yieldIfDue();
      const { matcher, validate } = fit();
      steps += matcher.steps(uri);
      if (steps > STEPS_MAX)
        throw new BerthError("invalid_params", `"uri" is too long to match against the server's URI templates`);
      const args = matcher.match(uri);
      if (args && (await validate(args)) === undefined) return open(uri, args);
    }
    return undefined;
  };
}

/** Limit of matching steps for one URI over all templates: about ten milliseconds. */
const STEPS_MAX = 2_000_000;

/** Tests whether `uriFinder` would find a URI. Holds no reference to the resources' contents. */
export function createUriTester(
  resources: readonly Findable[],
  validatorOf?: ValidatorOf,
): (uri: string) => boolean | Promise<boolean> {
  const uris = resources.map(({ uri }) => uri);
  const exact = new Set(uris.filter((uri) => !isTemplate(uri)));
  const starts = [...new Set(uris.filter(isTemplate).map(literalPrefix))];
  let find: Find<true> | undefined;
  return (uri) => {
    const isCandidate = exact.has(uri) || starts.some((start) => uri.startsWith(start));
    if (!isCandidate) return false;
    find ??= createUriFinder(
      resources.map((own) => ({ ...own, open: () => true as const })),
      validatorOf,
    );
    return find(uri).then((found) => found ?? false);
  };
}

function literalPrefix(template: string): string {
  return template.slice(0, template.indexOf("{"));
}

interface CompiledTemplate {
  readonly matcher: TemplateMatcher;
  /** Validates the variables and converts them to parameter types; returns what is wrong. */
  readonly validate: (args: JsonObject) => undefined | string | Promise<string | undefined>;
}

/** Compiles the template on first use. */
function lazyTemplate({ uri: template, inputSchema }: Findable, validatorOf?: ValidatorOf): () => CompiledTemplate {
  const properties = (inputSchema?.["properties"] ?? {}) as Record<string, JsonSchema>;
  const isList = (name: string): boolean => properties[name]?.["type"] === "array";
  let fit: CompiledTemplate | undefined;
  return () =>
    (fit ??= {
      matcher: templateMatcher(template, isList),
      validate: (inputSchema && validatorOf?.(inputSchema, { texts: true })) ?? unwrapLists,
    });
}

/** Replaces lists of one element by the element. */
function unwrapLists(args: JsonObject): string | undefined {
  for (const [name, value] of Object.entries(args)) {
    if (!Array.isArray(value)) continue;
    if (value.length > 1) return `/${name} must be a string`;
    args[name] = value[0]!;
  }
  return undefined;
}

/** Matches URIs against a template. */
interface TemplateMatcher {
  /** The cost of matching a URI, in steps of a few nanoseconds; 0 if its prefix or suffix does not match. */
  steps(uri: string): number;
  /** The decoded variables; undefined if the URI does not match. */
  match(uri: string): Record<string, string | string[]> | undefined;
}

/**
 * RFC 6570 defines expansion, not matching. If several matches are possible, earlier values are the longest. `isList`
 * selects the variables whose value is split at commas.
 */
export function templateMatcher(text: string, isList: (variable: string) => boolean): TemplateMatcher {
  const template = parseUriTemplate(text);
  if ("message" in template) return { steps: () => 0, match: () => undefined };
  const parts = [...template.parts];
  const first = typeof parts[0] === "string" ? (parts.shift() as string) : "";
  const last = typeof parts.at(-1) === "string" ? (parts.pop() as string) : "";
  const fixedLength = first.length + last.length;
  const isCandidate = (uri: string): boolean =>
    uri.length >= fixedLength && uri.length <= URI_UNITS_MAX && uri.startsWith(first) && uri.endsWith(last);
  return {
    steps: (uri) => (isCandidate(uri) ? (text.length - fixedLength + 1) * (uri.length - fixedLength + 1) : 0),

    match(uri) {
      const values = isCandidate(uri)
        ? splitValues(uri.slice(first.length, uri.length - last.length), parts)
        : undefined;
      if (!values) return undefined;
      const found: Found = Object.create(null) as Found;
      try {
        for (const [expression, value] of values) {
          if (value !== "" && !assign(found, expression, value, isList)) return undefined;
        }
      } catch {
        // A "%" is not followed by a valid code.
        return undefined;
      }
      return { ...found };
    },
  };
}

/** The possible expansions of an expression: the prefix of its operator, if any, then characters. */
interface Shape {
  /** An expression with a prefix may be missing entirely. */
  readonly prefix: string;
  /** Characters that it cannot contain. */
  readonly excluded: string;
  /** Minimum number of characters after the prefix. */
  readonly minLength: 0 | 1;
}

function expressionShape({ operator, variables }: Expression): Shape {
  switch (operator) {
    case "":
      return { prefix: "", excluded: "/?#&", minLength: 1 };
    case "+":
      return { prefix: "", excluded: "\n", minLength: 1 };
    case "#":
      return { prefix: "#", excluded: "\n", minLength: 0 };
    case ".":
      return { prefix: ".", excluded: "/?#&", minLength: 1 };
    case "/":
      return { prefix: "/", excluded: variables.length === 1 && !variables[0]!.explode ? "/?#" : "?#", minLength: 1 };
    case ";":
      return { prefix: ";", excluded: "/?#", minLength: 0 };
    case "?":
    case "&":
      return { prefix: operator, excluded: "#", minLength: 0 };
  }
}

const NO_MATCH = -1;

/** The value of each expression, without prefix; undefined if the text does not match. */
function splitValues(text: string, parts: readonly (string | Expression)[]): [Expression, string][] | undefined {
  // From the last part to the first: for each start index, the furthest end of the part such that the rest matches.
  const ends: Int16Array[] = [];
  let after: Int16Array = new Int16Array(text.length + 1).fill(NO_MATCH);
  after[text.length] = text.length;
  for (const part of parts.toReversed()) {
    after = typeof part === "string" ? literalEnds(text, part, after) : shapeEnds(text, expressionShape(part), after);
    ends.unshift(after);
  }
  if (after[0] === NO_MATCH) return undefined;
  const values: [Expression, string][] = [];
  let at = 0;
  for (const [index, part] of parts.entries()) {
    const end = ends[index]![at]!;
    if (typeof part !== "string") values.push([part, text.slice(at + expressionShape(part).prefix.length, end)]);
    at = end;
  }
  return at === text.length ? values : undefined;
}

function literalEnds(text: string, literal: string, after: Int16Array): Int16Array {
  const ends = new Int16Array(after.length).fill(NO_MATCH);
  for (let end = literal.length; end < after.length; end++) {
    const at = end - literal.length;
    if (after[end] !== NO_MATCH && text.startsWith(literal, at)) ends[at] = end;
  }
  return ends;
}

function shapeEnds(text: string, { prefix, excluded, minLength }: Shape, after: Int16Array): Int16Array {
  const isIn = (at: number): boolean => at < text.length && !excluded.includes(text[at]!);
  /** The furthest end of a run of allowed characters, by start index. */
  const runs = new Int16Array(after.length + 1).fill(NO_MATCH);
  for (let at = text.length; at >= 0; at--) {
    const further = isIn(at) ? runs[at + 1]! : NO_MATCH;
    runs[at] = further !== NO_MATCH || after[at] === NO_MATCH ? further : at;
  }
  return after.map((end, at) => {
    const from = at + prefix.length;
    const isMarked = prefix === "" || text[at] === prefix;
    const furthest = !isMarked ? NO_MATCH : minLength === 0 ? runs[from]! : isIn(from) ? runs[from + 1]! : NO_MATCH;
    return furthest === NO_MATCH && prefix !== "" && end !== NO_MATCH ? at : furthest;
  });
}

type IsList = (variable: string) => boolean;
type Found = Record<string, string | string[]>;

function assign(found: Found, { operator, variables }: Expression, text: string, isList: IsList): boolean {
  switch (operator) {
    case ";":
      return assignNamed(found, variables, text.split(";"), isList);
    case "?":
    case "&":
      return assignNamed(found, variables, text.split("&"), isList);
    case ".":
    case "/":
      return assignInOrder(found, variables, text, operator, isList);
    default:
      return assignInOrder(found, variables, text, ",", isList);
  }
}

/** Assigns values in order; an exploded variable takes all that remain. */
function assignInOrder(
  found: Found,
  variables: readonly Variable[],
  text: string,
  separator: string,
  isList: IsList,
): boolean {
  const [only] = variables;
  if (variables.length === 1 && !only!.explode) return assignValue(found, only!, text, isList);
  const values = text.split(separator);
  for (const variable of variables) {
    if (values.length === 0) return true;
    if (variable.explode) found[variable.name] = values.splice(0).map(decode);
    else if (!assignValue(found, variable, values.shift()!, isList)) return false;
  }
  return values.length === 0;
}

/** Assigns `name=value` pairs in any order; a name that is not in the template is no match. */
function assignNamed(found: Found, variables: readonly Variable[], pairs: readonly string[], isList: IsList): boolean {
  const byName = new Map(variables.map((variable) => [variable.name, variable]));
  for (const pair of pairs) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
    const variable = byName.get(name);
    if (!variable) return false;
    if (variable.explode) ((found[name] ??= []) as string[]).push(decode(value));
    else if (found[name] !== undefined || !assignValue(found, variable, value, isList)) return false;
  }
  return true;
}

function assignValue(found: Found, { name, prefix }: Variable, text: string, isList: IsList): boolean {
  const value = isList(name) ? text.split(",").map(decode) : decode(text);
  if (prefix !== undefined && typeof value === "string" && Array.from(value).length > prefix) return false;
  found[name] = value;
  return true;
}

function decode(text: string): string {
  return decodeURIComponent(text);
}
