import { parseJsonSource, type JsonNode } from "../../image/json-source.ts";
import type { Problem } from "../../problem.ts";
import { located } from "../config/mcps.ts";

/** Gives a problem its place in what a person sees. */
export type Place = (problem: Problem) => Problem;

/**
 * Places what a JSON pointer leads to in a text. `prefix` is the part of the pointers that leads to the text itself:
 * what stands elsewhere is left as it is. A text that is no JSON places nothing.
 */
export function placeIn(file: string, text: string, prefix: readonly string[] = []): Place {
  const start = prefix.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  let parsed: { root?: JsonNode } | undefined;
  return (problem) => {
    const { pointer } = problem;
    if (pointer === undefined || !(pointer === start || pointer.startsWith(`${start}/`))) return problem;
    parsed ??= parseJsonSource(file, text);
    const own = { ...problem, pointer: pointer.slice(start.length) };
    return parsed.root ? located([own], parsed.root)[0]! : problem;
  };
}
