import { BerthError } from "../lib/errors.ts";
import type { Json } from "../lib/json.ts";

/** The same error and its causes without hidden values: in messages, stacks, data and stderr. */
export function hideInError(error: unknown, hide: ((value: Json) => Json) | undefined): unknown {
  if (!hide) return error;
  const hidden = (text: string): string => hide(text) as string;
  let depth = 0;
  for (let each: unknown = error; each instanceof Error && depth < CAUSES_MAX; each = each.cause) {
    each.message = hidden(each.message);
    if (each.stack !== undefined) each.stack = hidden(each.stack);
    if ("stderr" in each && typeof each.stderr === "string") Object.assign(each, { stderr: hidden(each.stderr) });
    if (each instanceof BerthError && each.data) Object.assign(each, { data: hide(plain(each.data)) });
    depth++;
  }
  return error;
}

/** Bounds the search, because causes may form a circle. */
const CAUSES_MAX = 10;

function plain(data: Readonly<Record<string, unknown>>): Json {
  return JSON.parse(JSON.stringify(data)) as Json;
}
