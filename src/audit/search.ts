import { createYielder } from "../lib/event-loop.ts";
import type { AuditLink, AuditLinks } from "./audit-entry.ts";
import { toHex } from "./chain.ts";
import type { AuditFilter } from "./filter.ts";
import { matchingRecords, type AuditRecord } from "./record.ts";

export interface AuditQuery extends AuditFilter {
  /** Undefined for the whole log, including records about the service. */
  readonly tenant?: string | undefined;
  /** The `next` of an earlier search. */
  readonly cursor?: string | undefined;
  /** The maximum number of records to return. */
  readonly limit: number;
  /** The maximum number of links to read. */
  readonly linksMax: number;
}

export interface FoundRecords {
  /** Newest first. */
  readonly records: readonly AuditRecord[];
  /** The cursor of the next page; undefined at the end. A page can be short and still have a next one. */
  readonly next: string | undefined;
}

/** Links read at once. Each can contain up to a thousand calls. */
const LINKS_AT_ONCE = 8;

/** A page ends early above this size: a single record of a save lists all names that it moved. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** Undefined for an invalid cursor. */
export async function searchLog(links: AuditLinks, query: AuditQuery): Promise<FoundRecords | undefined> {
  const { tenant, kind, since, until, limit, linksMax } = query;
  const position = query.cursor === undefined ? undefined : await findCursor(links, query);
  if (query.cursor !== undefined && !position) return undefined;
  const yieldIfDue = createYielder();
  const records: AuditRecord[] = [];
  let from: { at: number; arrival: number } | undefined = position?.link;
  let skip = position?.skip ?? 0;
  let bytes = 0;
  for (let linksRead = 0; ;) {
    const page = await links.newest({ tenant, kind, since, until, from, max: LINKS_AT_ONCE + 1 });
    for (const link of page.slice(0, LINKS_AT_ONCE)) {
      if (linksRead === linksMax || bytes > PAGE_BYTES) return { records, next: cursorTo(link, 0) };
      const before = records.length;
      for (const { index, record } of matchingRecords(link, query, skip)) {
        if (records.length === limit) return { records, next: cursorTo(link, index) };
        records.push(record);
      }
      if (records.length > before) bytes += link.bytes;
      skip = 0;
      linksRead += 1;
      await yieldIfDue();
    }
    from = page[LINKS_AT_ONCE];
    if (!from) return { records, next: undefined };
  }
}

/**
 * A cursor must reveal nothing about other tenants. So it contains the time of the link and a prefix of its hash rather
 * than its arrival, which counts the links of all tenants.
 */
function cursorTo({ at, hash }: AuditLink, skip: number): string {
  return `${at.toString(36)}.${toHex(hash).slice(0, 16)}.${skip}`;
}

const CURSOR = /^([0-9a-z]{1,10})\.([0-9a-f]{16})\.(\d{1,6})$/;

async function findCursor(
  log: AuditLinks,
  { cursor = "", tenant }: AuditQuery,
): Promise<{ link: AuditLink; skip: number } | undefined> {
  const [, time = "", hash = "", skip = ""] = CURSOR.exec(cursor) ?? [];
  const at = parseInt(time, 36);
  if (!Number.isSafeInteger(at)) return undefined;
  const from = { at, arrival: Number.MAX_SAFE_INTEGER };
  const links = await log.newest({ tenant, from, since: at, max: SAME_MOMENT_MAX });
  const link = links.find((each) => each.at === at && toHex(each.hash).startsWith(hash));
  return link && { link, skip: Number(skip) };
}

/** The maximum number of links written in one millisecond, which takes calls of as many tenants. */
const SAME_MOMENT_MAX = 10_000;
