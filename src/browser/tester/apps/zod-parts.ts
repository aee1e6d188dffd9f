import {
  any,
  array,
  boolean,
  literal,
  never,
  number,
  object,
  record,
  string,
  undefined as undefinedSchema,
  union,
  unknown,
} from "zod/v4";

/**
 * The parts of the schema library that the bridge of apps uses: all of it would be half of the tester.
 * scripts/bundle-browser.mjs gives it this for `zod/v4`.
 */
export const z = {
  any,
  array,
  boolean,
  literal,
  never,
  number,
  object,
  record,
  string,
  undefined: undefinedSchema,
  union,
  unknown,
};
