/**
 * The three-way rule for one thing that an image and a person may both change. `base` is what the last applied
 * image said, `mine` what stands now, `theirs` what the new image says; `undefined` is absence. What a person
 * edited is never lost: it is followed only where it is still what the last image made it.
 */
export type Merge<T> =
  | { readonly outcome: "same" | "kept" | "conflict" }
  | { readonly outcome: "added" | "updated"; readonly value: T }
  | { readonly outcome: "removed" };

export function mergeThreeWays<T>(
  base: T | undefined,
  mine: T | undefined,
  theirs: T | undefined,
  isSame: (a: T | undefined, b: T | undefined) => boolean,
): Merge<T> {
  if (isSame(mine, theirs)) return { outcome: "same" };
  if (isSame(base, theirs)) return { outcome: "kept" };
  if (!isSame(mine, base)) return { outcome: "conflict" };
  if (theirs === undefined) return { outcome: "removed" };
  return { outcome: mine === undefined ? "added" : "updated", value: theirs };
}
