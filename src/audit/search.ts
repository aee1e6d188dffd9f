import { turnTaker } from "../lib/event-loop.ts";
import type { AuditLink, AuditLinks } from "./audit-entry.ts";
import { hexOf } from "./chain.ts";
import type { AuditFilter } from "./filter.ts";
import { recordsOf, type AuditRecord } from "./record.ts";

export interface AuditQuery extends AuditFilter {
  /** Undefined for the whole log, the records of the service included. */
  readonly tenant?: string | undefined;
  /** The end of an earlier search. */
  readonly cursor?: string | undefined;
  /** The number of records wanted. */
  readonly limit: number;
  /** The number of links that may be looked through. */
  readonly linksMax: number;
}

export interface FoundRecords {
  /** Newest first. */
  readonly records: readonly AuditRecord[];
  /**
   * The cursor of the next page; undefined at the end. A page may have fewer records than wanted and still have a next
   * one.
   */
  readonly next: string | undefined;
}

/** The links read in one go, of up to a thousand calls each. */
const LINKS_AT_ONCE = 8;

/** A page ends early above this size: a single record of a save has the names of all that it moved. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** Undefined for a cursor that leads nowhere. */
export async function searchLog(links: AuditLinks, query: AuditQuery): Promise<FoundRecords | undefined> {
  const { tenant, kind, since, until, limit, linksMax } = query;
  const place = query.cursor === undefined ? undefined : await placeAt(links, query);
  if (query.cursor !== undefined && !place) return undefined;
  const takeTurn = turnTaker();
  const records: AuditRecord[] = [];
  let from: { at: number; arrival: number } | undefined = place?.link;
  let skip = place?.skip ?? 0;
  let bytes = 0;
  for (let looked = 0; ;) {
    const page = await links.newest({ tenant, kind, since, until, from, max: LINKS_AT_ONCE + 1 });
    for (const link of page.slice(0, LINKS_AT_ONCE)) {
      if (looked === linksMax || bytes > PAGE_BYTES) return { records, next: cursorTo(link, 0) };
      const before = records.length;
      for (const { place, record } of recordsOf(link, query, skip)) {
        if (records.length === limit) return { records, next: cursorTo(link, place) };
        records.push(record);
      }
      if (records.length > before) bytes += link.bytes;
      skip = 0;
      looked += 1;
      await takeTurn();
    }
    from = page[LINKS_AT_ONCE];
    if (!from) return { records, next: undefined };
  }
}

/**
 * A cursor tells a tenant nothing of the others: it has not the link's arrival, which counts the links of all of them,
 * but its time and the beginning of its hash.
 */
function cursorTo({ at, hash }: AuditLink, skip: number): string {
  return `${at.toString(36)}.${hexOf(hash).slice(0, 16)}.${skip}`;
}

const CURSOR = /^([0-9a-z]{1,10})\.([0-9a-f]{16})\.(\d{1,6})$/;

async function placeAt(
  log: AuditLinks,
  { cursor = "", tenant }: AuditQuery,
): Promise<{ link: AuditLink; skip: number } | undefined> {
  const [, time = "", hash = "", skip = ""] = CURSOR.exec(cursor) ?? [];
  const at = parseInt(time, 36);
  if (!Number.isSafeInteger(at)) return undefined;
  const from = { at, arrival: Number.MAX_SAFE_INTEGER };
  const links = await log.newest({ tenant, from, since: at, max: SAME_MOMENT_MAX });
  const link = links.find((each) => each.at === at && hexOf(each.hash).startsWith(hash));
  return link && { link, skip: Number(skip) };
}

/** The most links that are written in one millisecond: calls of that many tenants. */
const SAME_MOMENT_MAX = 10_000;
