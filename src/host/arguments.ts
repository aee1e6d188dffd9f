import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { compilePattern } from "../discover/pattern.ts";
import type { JsonSchema } from "../json.ts";

/** Checks a value, fills in the schema's defaults, and says all that is wrong as sentences with a JSON pointer. */
export type Validator = (value: unknown) => readonly string[];

type Coercion = "array" | false;

/** With `bare` it knows no schema at all, not even those of JSON Schema itself, and costs a tenth. */
function createAjv(coerceTypes: Coercion, bare = false): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    useDefaults: true,
    coerceTypes,
    addUsedSchema: bare,
    meta: !bare,
    validateSchema: !bare,
    logger: false,
    // Linear time: a definition's regular expression must not stop the serving process.
    code: { regExp: Object.assign(compilePattern, { code: "compilePattern" }) },
  });
  formats.default(ajv);
  return ajv;
}

const exact = createAjv(false);
let coercing: Ajv2020 | undefined;

/** Compiles on first use, since most tools of most servers are never called. Throws on a schema that is not valid. */
export function lazyValidator(schema: JsonSchema): Validator {
  return validatorOf(() => compile(exact, schema));
}

/** As `lazyValidator`, for values that come as texts: they become the numbers, booleans and lists that are wanted. */
export function lazyTextValidator(schema: JsonSchema): Validator {
  return validatorOf(() => compile((coercing ??= createAjv("array")), schema));
}

/** Why values cannot be checked by a schema, as the end of a sentence; undefined when they can. */
export function faultOfSchema(schema: JsonSchema): string | undefined {
  try {
    // An asynchronous check would give a promise, which looks as if every value were right.
    return "$async" in compile(exact, schema) ? "it is asynchronous" : undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function validatorOf(compile: () => ValidateFunction): Validator {
  let check: ValidateFunction | undefined;
  return (value) => {
    check ??= compile();
    return check(value) ? [] : describe(check.errors ?? []);
  };
}

function compile(ajv: Ajv2020, schema: JsonSchema): ValidateFunction {
  // A name is known to everything that an instance compiles: whoever else has it, even JSON Schema, would be changed.
  if (JSON.stringify(schema).includes('"$id":')) {
    void ajv.validateSchema(schema, true);
    return createAjv(ajv.opts.coerceTypes as Coercion, true).compile(schema);
  }
  try {
    return ajv.compile(schema);
  } finally {
    // The instances are shared, because each costs 500 KB; they must not keep every schema that they ever saw.
    ajv.removeSchema(schema);
  }
}

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
