import { after, before } from "node:test";
import { lower } from "./lowered-limits.ts";

/** Lowers fixed bounds for the tests of the suite that calls this, and before its hooks run. */
export function lowerInSuite(values: Readonly<Record<string, number>>): void {
  let restore: () => void;
  before(() => void (restore = lower(values)));
  after(() => restore());
}
