import { BerthError } from "./errors.ts";
import { NESTING_MAX, nestsTooDeep } from "./json.ts";

/** Parses the JSON of a body. Throws `parse_error`, or `invalid_request` for a value that nests too deeply. */
export function parseJson(body: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (error) {
    throw new BerthError("parse_error", (error as Error).message, { cause: error });
  }
  if (nestsTooDeep(value, body.length)) {
    throw new BerthError("invalid_request", `a message nests at most ${NESTING_MAX} levels deep`);
  }
  return value;
}
