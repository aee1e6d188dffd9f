import { chunk, kebabCase } from "lodash-es";

/** Cuts a list into pieces, and writes a name in another way. */
export function pieces(): { chunks: number[][]; name: string } {
  return { chunks: chunk([1, 2, 3, 4, 5], 2), name: kebabCase("fooBarBaz") };
}
