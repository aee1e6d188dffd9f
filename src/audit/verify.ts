import { hash } from "node:crypto";
import { GENESIS, hexOf, linkHash } from "./chain.ts";
import type { AuditHead, AuditLink, AuditLinks } from "./entry.ts";

export interface VerifiedLog {
  /** The first thing that does not fit, and at which link; undefined when all does. */
  readonly fault: { readonly number: number; readonly message: string } | undefined;
  /** Undefined for a log without a link. */
  readonly first: number | undefined;
  readonly head: AuditHead | undefined;
  readonly links: number;
  readonly records: number;
  /** Of these records the contents were removed by retention; their links are there. */
  readonly removedRecords: number;
}

/**
 * Walks the whole chain: each link has to follow from the one before it, and each body has to be what its link says.
 * What retention removed has to be what the log itself says of that. With the `kept` head of an earlier time, that very
 * link has to be there: without one, nothing tells a log whose end was cut off from one that ended there.
 */
export function verifyLog(log: AuditLinks, kept?: AuditHead): VerifiedLog {
  const removals = log.removals();
  let previous = removals.start ?? GENESIS;
  let [links, records, removedRecords] = [0, 0, 0];
  let first: number | undefined;
  const state = (fault: VerifiedLog["fault"]): VerifiedLog => {
    return { fault, first, head: links === 0 ? undefined : previous, links, records, removedRecords };
  };

  for (const link of log.all()) {
    const message =
      placeFault(previous, link, links === 0 && removals.start !== undefined) ??
      hashFault(previous, link) ??
      bodyFault(link, link.number <= removals.bodiesThrough(link.tenant, link.kind === "call")) ??
      (kept?.number === link.number ? keptFault(kept, link) : undefined);
    if (message !== undefined) return state({ number: link.number, message });
    first ??= link.number;
    links += 1;
    records += link.records;
    if (link.body === null) removedRecords += link.records;
    previous = link;
  }
  return state(kept && endFault(kept, removals.start, previous));
}

function placeFault(previous: AuditHead, link: AuditLink, isCut: boolean): string | undefined {
  if (link.number === previous.number + 1) return undefined;
  if (isCut) return `the log begins here, and says itself that it begins at ${previous.number + 1}`;
  const missing = previous.number + 1;
  return `the link ${missing}${missing === link.number - 1 ? "" : ` to ${link.number - 1}`} before it is missing`;
}

function hashFault(previous: AuditHead, link: AuditLink): string | undefined {
  if (same(linkHash(previous.hash, link), link.hash)) return undefined;
  return "it does not follow from the link before it: one of the two was changed, or something between them is gone";
}

function bodyFault({ body, digest, bytes }: AuditLink, mayBeGone: boolean): string | undefined {
  if (body === null) return mayBeGone ? undefined : "its contents are gone, and no record of retention says so";
  const isRight = Buffer.byteLength(body) === bytes && same(hash("sha256", body, "buffer"), digest);
  return isRight ? undefined : "its contents are not those that were recorded";
}

function keptFault(kept: AuditHead, link: AuditLink): string | undefined {
  if (same(kept.hash, link.hash)) return undefined;
  return `it is ${hexOf(link.hash)}, and was ${hexOf(kept.hash)}: the log was written anew`;
}

/** What the walk could not compare, because the kept head is not within what is there. */
function endFault(kept: AuditHead, start: AuditHead | undefined, head: AuditHead): VerifiedLog["fault"] {
  const { number } = kept;
  if (number > head.number)
    return { number, message: `the log ends at ${head.number}: what came after it was cut off` };
  if (!start || number > start.number || (number === start.number && same(kept.hash, start.hash))) return undefined;
  const message = `the log begins after it, at ${start.number + 1}: nothing tells any more whether it was there`;
  return { number, message };
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
