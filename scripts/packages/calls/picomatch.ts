import picomatch from "picomatch";

const isMatch = picomatch("*.!(*a)");

/** Matches names by a pattern. */
export function matches(): boolean[] {
  return ["a.a", "a.b"].map((name) => isMatch(name));
}
