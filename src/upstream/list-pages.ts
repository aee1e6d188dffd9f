import type { Limits } from "../limits/limits.ts";
import { turnTaker } from "../lib/event-loop.ts";
import { LongPage, sift, siftText, type LeftOutEntry } from "./long-answers.ts";
import { broken, isText, shortResult } from "./results.ts";
import type { AnyResult } from "./request.ts";

export type ListLimits = Pick<
  Limits,
  "upstreamListPages" | "upstreamListItems" | "upstreamEntryBytes" | "upstreamListBytes" | "contractValues"
>;

/** The member that holds a page's entries, and the key of each entry. */
interface ListKeys {
  readonly key: string;
  readonly nameKey: string;
}

interface ListedEntries {
  readonly entries: readonly unknown[];
  /** Entries that are too large or too deep. */
  readonly leftOut: readonly LeftOutEntry[];
  readonly bytes: number;
}

/**
 * All entries of a list, page by page; `page` requests one. Throws `upstream_protocol` for pages that are invalid, form
 * a circle or never end.
 */
export async function readPages(
  method: string,
  { key, nameKey }: ListKeys,
  limits: ListLimits,
  page: (params: { cursor?: string }) => Promise<AnyResult>,
): Promise<ListedEntries> {
  const { upstreamListPages, upstreamListItems } = limits;
  const entries: unknown[] = [];
  const leftOut: LeftOutEntry[] = [];
  const cursors = new Set<string>();
  const turn = turnTaker();
  let [bytes, values] = [0, 0];
  let cursor: string | undefined;
  do {
    const answer = await page(cursor === undefined ? {} : { cursor });
    const isLong = answer instanceof LongPage;
    const given = isLong ? { [key]: answer.entries, nextCursor: answer.nextCursor } : shortResult(method, answer);
    const { [key]: list, nextCursor } = given;
    if (!Array.isArray(list)) throw broken(method, `its ${key} are not a list`);
    if (isLong) leftOut.push(...answer.leftOut);
    for (const [index, each] of (list as unknown[]).entries()) {
      await turn();
      const at = { nameKey, index, bytes, values };
      const sifted = isLong ? siftText(each as string, at, limits) : sift(each, at, limits);
      if ("why" in sifted) leftOut.push(sifted);
      else {
        entries.push(sifted.entry);
        bytes += sifted.bytes;
        values += sifted.values;
      }
      if (entries.length + leftOut.length > upstreamListItems) {
        throw broken(method, `it has more than ${upstreamListItems} entries`);
      }
    }
    cursor = isText(nextCursor) && nextCursor !== "" ? nextCursor : undefined;
    if (cursor !== undefined && cursors.has(cursor)) throw broken(method, "its pages go round in a circle");
    cursors.add(cursor ?? "");
    if (cursors.size > upstreamListPages) throw broken(method, `it has more than ${upstreamListPages} pages`);
  } while (cursor !== undefined);
  return { entries, leftOut, bytes };
}
