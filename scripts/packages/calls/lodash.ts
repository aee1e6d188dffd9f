import _ from "lodash";

/** Groups words by their lengths. */
export function grouped(): Record<string, string[]> {
  return _.groupBy(["one", "two", "three"], "length");
}
