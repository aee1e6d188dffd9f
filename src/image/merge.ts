/**
 * The three-way rule for one thing that an image and a person may both change. `base` is what the last applied image
 * said, `mine` the current state, `theirs` the new image; `undefined` is absence. A person's edit is never lost: the
 * new image counts only where the last image's state is unedited.
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
