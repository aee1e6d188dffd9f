/** The commands that are used most, as one part of the bundles. */
export { cat } from "./cat.ts";
export { head } from "./head.ts";
export { inspect } from "./inspect.ts";
export { put } from "./put.ts";
export { tail } from "./tail.ts";
