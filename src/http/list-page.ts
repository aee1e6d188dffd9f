import type { Request } from "express";
import { BerthError } from "../lib/errors.ts";

/**
 * Pages of a list of names: how many of them, and after which. A cursor is the last name (of tokens, the last id) of the page before, so that
 * what others add or remove meanwhile makes no gap, and nothing comes twice.
 */
export interface ListPage {
  readonly limit: number;
  readonly after?: string;
}

export interface ListPageLimits {
  /** Of one page: unless its query says another number, and the most that it may say. */
  readonly pageItems: number;
  readonly pageItemsMax: number;
}

/** What `?limit=&cursor=` of an address asks for. Throws `invalid_params`. */
export function readListPage({ query }: Pick<Request, "query">, { pageItems, pageItemsMax }: ListPageLimits): ListPage {
  const { limit = String(pageItems), cursor } = query;
  const count = typeof limit === "string" && /^[1-9][0-9]{0,8}$/.test(limit) ? Number(limit) : NaN;
  if (!(count <= pageItemsMax)) {
    throw new BerthError("invalid_params", `"limit" must be a whole number from 1 to ${pageItemsMax}`);
  }
  if (cursor === undefined) return { limit: count };
  const after = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString() : "";
  if (!after.startsWith(MARK)) throw new BerthError("invalid_params", '"cursor" is none that this list gave');
  return { limit: count, after: after.slice(MARK.length) };
}

/** Of sorted names those of one page that are shown, and the cursor of the next page where there is one. */
export function namesOnPage(
  names: readonly string[],
  { limit, after }: ListPage,
  isShown: (name: string) => boolean,
): { readonly names: readonly string[]; readonly next?: string } {
  const shown: string[] = [];
  for (let index = after === undefined ? 0 : indexAfter(names, after); index < names.length; index++) {
    const name = names[index]!;
    if (!isShown(name)) continue;
    if (shown.length === limit) return { names: shown, next: cursorAfter(shown.at(-1)!) };
    shown.push(name);
  }
  return { names: shown };
}

/** The address of the next page of an HTML list; undefined where this is the last. */
export function nextAddress(
  path: string,
  request: Pick<Request, "query">,
  next: string | undefined,
): string | undefined {
  if (next === undefined) return undefined;
  const { limit } = request.query;
  const query = new URLSearchParams({ ...(typeof limit === "string" && { limit }), cursor: next });
  return `${path}?${query.toString()}`;
}

const MARK = "after:";

/** The cursor of the page that follows the one that ends with `last`. */
export function cursorAfter(last: string): string {
  return Buffer.from(`${MARK}${last}`).toString("base64url");
}

/** By halves: whoever goes through all pages of a long list does not go through it once more for each. */
function indexAfter(names: readonly string[], after: string): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle]! > after) high = middle;
    else low = middle + 1;
  }
  return low;
}
