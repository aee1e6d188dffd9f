import type { Limits } from "../limits.ts";
import { broken, isText } from "./results.ts";
import type { Result } from "./request.ts";

export type ListLimits = Pick<Limits, "upstreamListPages" | "upstreamListItems">;

/**
 * All entries of a list, page by page; `page` asks for one. Throws `upstream_protocol` for pages that are none, go
 * round in a circle or have no end.
 */
export async function readPages(
  method: string,
  key: string,
  { upstreamListPages, upstreamListItems }: ListLimits,
  page: (params: { cursor?: string }) => Promise<Result>,
): Promise<unknown[]> {
  const entries: unknown[] = [];
  const cursors = new Set<string>();
  let cursor: string | undefined;
  do {
    const { [key]: list, nextCursor } = await page(cursor === undefined ? {} : { cursor });
    if (!Array.isArray(list)) throw broken(method, `its ${key} are not a list`);
    for (const entry of list) entries.push(entry);
    cursor = isText(nextCursor) && nextCursor !== "" ? nextCursor : undefined;
    if (cursor !== undefined && cursors.has(cursor)) throw broken(method, "its pages go round in a circle");
    cursors.add(cursor ?? "");
    if (cursors.size > upstreamListPages) throw broken(method, `it has more than ${upstreamListPages} pages`);
    if (entries.length > upstreamListItems) throw broken(method, `it has more than ${upstreamListItems} entries`);
  } while (cursor !== undefined);
  return entries;
}
