import { _, Ajv2020, type CodeKeywordDefinition, type ErrorObject } from "ajv/dist/2020.js";
import standaloneCode from "ajv/dist/standalone/index.js";
import { compilePattern } from "../../discover/pattern.ts";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { evaluated, GAVE_UP, OVERFILLED, own, OWN, within, type Check } from "./check-work.ts";

/**
 * Compiles JSON Schemas to code that checks values, and words what is wrong with them. Compiling takes from
 * milliseconds to seconds, so the serving thread never does it for a schema from outside.
 */
export interface SchemaOptions {
  /** True if values are texts, to convert to the numbers, booleans and lists that the schema wants. */
  readonly texts: boolean;
}

export interface SchemaCode {
  readonly code: string;
  /** The instructions of all its patterns together, as they run. */
  readonly instructions: number;
}

/** Makes the code that ends at the first error, or that finds all of them. Throws on an invalid schema. */
export function codeOf(schema: JsonSchema, { texts }: SchemaOptions, allErrors: boolean): SchemaCode {
  const text = JSON.stringify(schema, refuseEndOfComment);
  void validatorOfSchemas().validateSchema(schema, true);
  let instructions = 0;
  const regExp = Object.assign(
    (source: string) => {
      const compiled = compilePattern(source);
      instructions += compiled.instructions;
      return compiled;
    },
    { code: OWN.pattern },
  );
  const isAboutSchemas = text.includes("json-schema.org/draft/2020-12/");
  // One for each schema, since it keeps parts of every schema that it saw, and must not confuse those of the same name.
  const ajv = new Ajv2020({
    strict: false,
    allErrors,
    useDefaults: true,
    coerceTypes: texts ? "array" : false,
    meta: isAboutSchemas && !text.includes('"$id":'),
    validateSchema: false,
    inlineRefs: INLINED_KEYWORDS,
    // A loop reads properties by a computed name, which may be inherited.
    loopRequired: Infinity,
    logger: false,
    code: { source: true, formats: _`own.formats`, regExp },
  });
  for (const [name, format] of Object.entries(own.formats)) ajv.addFormat(name, format as true);
  ajv.removeKeyword("uniqueItems").addKeyword(uniqueItems);
  const compiled = ajv.compile(text.includes('"__proto__"') ? (JSON.parse(text, withPattern) as JsonSchema) : schema);
  if ("$async" in compiled) throw new Error("it is asynchronous");
  return { code: counting(standaloneCode.default(ajv, compiled)), instructions };
}

/** The library writes any "$id" into a comment of the code, wherever a reference leads, so none may end the comment. */
function refuseEndOfComment(key: string, value: unknown): unknown {
  if (key === "$id" && JSON.stringify(value).includes("*/")) throw new Error('an "$id" must not have "*/" in it');
  return value;
}

/** The library ignores a property "__proto__", but not a pattern that matches it. */
function withPattern(_key: string, value: unknown): unknown {
  if (!isObject(value) || !isObject(value["properties"]) || !Object.hasOwn(value["properties"], "__proto__"))
    return value;
  const { ["__proto__"]: own, ...properties } = value["properties"];
  return { ...value, properties, patternProperties: { ...(value["patternProperties"] as object), "^__proto__$": own } };
}

/** A definition with many references becomes one function, unless it is as short as a call of it. */
const INLINED_KEYWORDS = 8;

let ofSchemas: Ajv2020 | undefined;

function validatorOfSchemas(): Ajv2020 {
  if (!ofSchemas) {
    ofSchemas = new Ajv2020({ strict: false, addUsedSchema: false, logger: false });
    for (const [name, format] of Object.entries(own.formats)) ofSchemas.addFormat(name, format as true);
  }
  return ofSchemas;
}

/** The library's own keyword compares all pairs when items are no plain values. */
const uniqueItems: CodeKeywordDefinition = {
  keyword: "uniqueItems",
  type: "array",
  schemaType: "boolean",
  error: {
    message: ({ params: { pair } }) =>
      _`"must NOT have duplicate items (items ## " + ${pair}[1] + " and " + ${pair}[0] + " are identical)"`,
    params: ({ params: { pair } }) => _`{i: ${pair}[0], j: ${pair}[1]}`,
  },
  code(context) {
    const { gen, data, schema } = context;
    if (schema !== true) return;
    const duplicate = gen.scopeValue("func", { ref: uniqueItems, code: _`own.duplicate` });
    const pair = gen.const("pair", _`${duplicate}(${data})`);
    context.setParams({ pair });
    context.fail(pair);
  },
};

/** The same code, counting its work; string literals in it stay as they are. */
function counting(code: string): string {
  const steps = `${OWN.spend}(${1 + (code.length >> CODE_UNITS_BITS)});`;
  return code.replace(CODE_PARTS, (part, at: number) => {
    if (part.endsWith(" = ")) return `${OWN.fill}(${unitsOfLiteral(code, at + part.length)});${part}`;
    if (part.startsWith('"') || part.startsWith("'")) return part;
    if (part === "errors++;") return `errors++;${OWN.error}();`;
    if (part === "Object.keys(") return `${OWN.keys}(`;
    if (!part.startsWith("data")) return part + steps;
    const [holder, name = ""] = part.split(".");
    return name in Object.prototype ? `${OWN.get}(${holder},"${name}")` : part;
  });
}

/** The length of the JSON text that begins at a place in the code and ends before a semicolon. */
function unitsOfLiteral(code: string, from: number): number {
  LITERAL.lastIndex = from;
  return LITERAL.exec(code)?.[0].length ?? 0;
}

const LITERAL = /(?:"(?:[^"\\]|\\.)*"|[^";])*/y;
/** Between two steps, no more code runs than all of it, once. */
const CODE_UNITS_BITS = 10;
const CODE_PARTS =
  /\bdata\d*(?:\.[\w$]+|\["(?:[^"\\]|\\.)*"\]|\[\d+\])(?: = )?|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\berrors\+\+;|\bObject\.keys\(|\bfor\([^"'{]*\)\{|\bfunction validate\d+\(data, \{(?:[^{}]|\{\})*\}=\{\}\)\{/g;

/**
 * Fills in a value and lists all that is wrong with it; nothing when it is right. `filledMax` is how much longer the
 * value may become by defaults, in UTF-16 units of its JSON text.
 */
export type ValueValidator = (value: unknown, filledMax?: number) => string[];

/** Limits neither time nor memory, so it is not for the serving thread. Throws on an invalid schema. */
export function compileSchema(
  schema: JsonSchema,
  options: SchemaOptions,
): { readonly judge: ValueValidator; readonly quick: SchemaCode } {
  const quick = codeOf(schema, options, false);
  const isRight = evaluated(quick.code);
  let all: Check | undefined;
  const judge: ValueValidator = (value, filledMax = Infinity) => {
    let first: string[] = [];
    try {
      if (within({ steps: Infinity, errors: Infinity, filled: filledMax }, () => isRight(value))) return [];
      first = describe(isRight.errors ?? []);
      const check = (all ??= evaluated(codeOf(schema, options, true).code));
      if (within({ steps: Infinity, errors: ERRORS_MAX, filled: filledMax }, () => check(value))) return first;
      return describe(check.errors ?? []);
    } catch (error) {
      if (error === OVERFILLED) return [overfilled(filledMax)];
      if (error === GAVE_UP) return [...first, "and more"];
      if (error instanceof RangeError) return [ENDLESS];
      throw error;
    }
  };
  return { judge, quick };
}

/** The stack has overflowed by defaults, since incoming values nest no deeper than it bears. */
const ENDLESS = "the defaults of its schema lead back to themselves without an end";

export function overfilled(unitsMax: number): string {
  return `the defaults of its schema would make it longer by more than ${unitsMax} characters`;
}

/** The most errors to look for: each costs microseconds, and a value may have millions. */
const ERRORS_MAX = 1_000;
const ERRORS_SHOWN = 10;

function describe(errors: readonly ErrorObject[]): string[] {
  const sentences = [...new Set(errors.map(sentenceOf))];
  if (sentences.length <= ERRORS_SHOWN) return sentences;
  return [...sentences.slice(0, ERRORS_SHOWN), `and ${sentences.length - ERRORS_SHOWN} more`];
}

function sentenceOf({ instancePath, keyword, params, message }: ErrorObject): string {
  const at = instancePath || "the value";
  switch (keyword) {
    case "additionalProperties":
      return `${at} has no property "${params["additionalProperty"]}"`;
    case "required":
      return `${at} needs the property "${params["missingProperty"]}"`;
    case "enum":
      return `${at} must be one of ${JSON.stringify(params["allowedValues"])}`;
    case "const":
      return `${at} must be ${JSON.stringify(params["allowedValue"])}`;
    default:
      return `${at} ${message ?? "is not valid"}`;
  }
}
