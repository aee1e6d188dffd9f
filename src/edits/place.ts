import { placeProblems, type Reader } from "../lib/json-source.ts";
import type { Problem } from "../lib/problem.ts";

/** Gives problems their places in the text that a person sees. */
export type EditPlace = (problems: readonly Problem[]) => Promise<Problem[]>;

/**
 * Places problems in a text by their JSON pointers. `prefix` is the part of the pointers that leads to the text itself:
 * problems elsewhere stay as they are. A text that is no JSON places nothing.
 */
export function placeIn(reader: Reader, file: string, text: string, prefix: readonly string[] = []): EditPlace {
  const start = prefix.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  const isInside = ({ pointer }: Problem): boolean =>
    pointer !== undefined && (pointer === start || pointer.startsWith(`${start}/`));
  const fromText = (problem: Problem): Problem => ({ ...problem, pointer: problem.pointer!.slice(start.length) });
  return async (problems) => {
    const own = problems.filter(isInside).map(fromText);
    if (own.length === 0) return [...problems];
    const placed = (await placeProblems(file, text, own, reader))?.values();
    return problems.map((problem) => (placed && isInside(problem) ? placed.next().value! : problem));
  };
}
