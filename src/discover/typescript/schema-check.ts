import { createRequire } from "node:module";
import type { Ajv2020 } from "ajv/dist/2020.js";
import type { Json, JsonSchema } from "../../lib/json.ts";
import { compilePattern } from "../pattern.ts";

/** The validator that checks the arguments of calls. Every schema that is offered is validated. */
const require = createRequire(import.meta.url);

/** Why a schema cannot be used to check arguments, as the end of a sentence; undefined if it can. */
export function findSchemaFault(schema: JsonSchema): string | undefined {
  try {
    validator().compile(schema);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

let meta: Ajv2020 | undefined;

/** The violation of the meta-schema, as the end of a sentence; undefined if the schema is valid. */
export function findMetaSchemaFault(schema: JsonSchema): string | undefined {
  meta ??= validator();
  const isValid = meta.validateSchema(JSON.parse(JSON.stringify(schema)) as JsonSchema) === true;
  return isValid ? undefined : meta.errorsText(meta.errors, { dataVar: "" });
}

/** True if a part of a schema allows a value; false if only a reference to another part could decide. */
export function fitsSchema(part: JsonSchema, value: Json): boolean {
  const alone = JSON.parse(JSON.stringify(part, (_, it: unknown) => (isReference(it) ? false : it))) as JsonSchema;
  try {
    return validator().compile(alone)(value);
  } catch {
    return false;
  }
}

function isReference(value: unknown): boolean {
  return typeof value === "object" && value !== null && typeof (value as JsonSchema)["$ref"] === "string";
}

function validator(): Ajv2020 {
  const { Ajv2020 } = require("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
  const formats = require("ajv-formats") as typeof import("ajv-formats");
  const regExp = Object.assign(compilePattern, { code: "compilePattern" });
  const ajv = new Ajv2020({ strict: false, logger: false, code: { regExp } });
  formats.default(ajv);
  return ajv;
}
