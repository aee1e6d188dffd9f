import type { Request } from "express";
import { BerthError } from "../lib/errors.ts";

/**
 * A page of a list of names: its length, and the name after which it begins. A cursor is the last name (for tokens, the
 * last id) of the previous page, so that concurrent changes cause neither gaps nor duplicates.
 */
export interface ListPage {
  readonly limit: number;
  readonly after?: string;
}

/** The length of a page: the default, and the most that a query may ask for. */
const PAGE_ITEMS = 100;
const PAGE_ITEMS_MAX = 1_000;

/** Reads `?limit=&cursor=` of an address. Throws `invalid_params`. */
export function readListPage({ query }: Pick<Request, "query">): ListPage {
  const { limit = String(PAGE_ITEMS), cursor } = query;
  const count = typeof limit === "string" && /^[1-9][0-9]{0,8}$/.test(limit) ? Number(limit) : NaN;
  if (!(count <= PAGE_ITEMS_MAX)) {
    throw new BerthError("invalid_params", `"limit" must be a whole number from 1 to ${PAGE_ITEMS_MAX}`);
  }
  if (cursor === undefined) return { limit: count };
  const after = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString() : "";
  if (!after.startsWith(MARK)) throw new BerthError("invalid_params", '"cursor" is not from this list');
  return { limit: count, after: after.slice(MARK.length) };
}

/** Selects the shown names of one page from sorted names, and the cursor of the next page if there is one. */
export function namesOnPage(
  names: readonly string[],
  { limit, after }: ListPage,
  isShown: (name: string) => boolean,
): { readonly names: readonly string[]; readonly next?: string } {
  const shown: string[] = [];
  for (const name of namesAfter(names, after)) {
    if (!isShown(name)) continue;
    if (shown.length === limit) return { names: shown, next: cursorAfter(shown.at(-1)!) };
    shown.push(name);
  }
  return { names: shown };
}

/** The address of the next page of an HTML list, with these fields of its query; undefined on the last page. */
export function nextAddress(
  path: string,
  request: Pick<Request, "query">,
  next: string | undefined,
  fields: readonly string[] = [],
): string | undefined {
  if (next === undefined) return undefined;
  const query = new URLSearchParams();
  for (const field of ["limit", ...fields]) {
    const value = request.query[field];
    if (typeof value === "string" && value !== "") query.set(field, value);
  }
  query.set("cursor", next);
  return `${path}?${query.toString()}`;
}

const MARK = "after:";

/** The cursor of the page after the one that ends with `last`. */
export function cursorAfter(last: string): string {
  return Buffer.from(`${MARK}${last}`).toString("base64url");
}

/** The names of a sorted list after this one; without it, all of them. */
export function* namesAfter(names: readonly string[], after: string | undefined): Generator<string> {
  const start = after === undefined ? 0 : indexAfter(names, after);
  for (let index = start; index < names.length; index++) yield names[index]!;
}

/** A binary search: paging through a long list does not scan it once per page. */
function indexAfter(names: readonly string[], after: string): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle]! > after) high = middle;
    else low = middle + 1;
  }
  return low;
}
