import { hash } from "node:crypto";
import { defaultLimits } from "../limits/limits.ts";
import {
  KEPT_SHARE,
  type AuditHead,
  type AuditLink,
  type AuditLinks,
  type Keep,
  type Retention,
} from "./audit-entry.ts";
import { GENESIS, hexOf, linkHash } from "./chain.ts";

export interface VerifiedLog {
  /** The first fault and its link; undefined if there is none. */
  readonly fault: { readonly number: number; readonly message: string } | undefined;
  /** Undefined for a log without links. */
  readonly first: number | undefined;
  readonly head: AuditHead | undefined;
  readonly links: number;
  readonly records: number;
  /** Records whose contents retention removed; their links are there. */
  readonly removedRecords: number;
}

/**
 * Walks the whole chain: each link must follow from the previous one, and each body must match its link. Everything
 * that is removed must be covered by a record of retention. With the `kept` head of an earlier time, that very link
 * must be there: without one, a log that was cut off looks like one that ended there.
 */
export async function verifyLog(log: AuditLinks, kept?: AuditHead, limits: Keep = defaultLimits): Promise<VerifiedLog> {
  const removals = new Removals(await log.retentions(), kept, limits);
  const { cut } = removals;
  let previous: AuditHead = cut?.cut ?? GENESIS;
  let [links, records, removedRecords] = [0, 0, 0];
  let first: number | undefined;
  const state = (fault: VerifiedLog["fault"]): VerifiedLog => {
    return { fault, first, head: links === 0 ? undefined : previous, links, records, removedRecords };
  };

  for await (const link of log.all()) {
    const message =
      placeFault(previous, link, links === 0 && cut !== undefined, removals.damage) ??
      columnsFault(link) ??
      hashFault(previous, link) ??
      (links === 0 && cut ? removals.cutFault(cut, link) : undefined) ??
      bodyFault(link, removals.mayBeGone(link), removals.damage) ??
      (kept?.number === link.number ? keptFault(kept, link) : undefined);
    if (message !== undefined) return state({ number: link.number, message });
    first ??= link.number;
    links += 1;
    records += link.records;
    if (link.body === null) removedRecords += link.records;
    removals.count(link);
    previous = link;
  }
  return state(removals.bodiesFault() ?? (kept && endFault(kept, cut?.cut, previous)));
}

const DAY_MS = 86_400_000;
const UNPROVEN_MS = 30 * DAY_MS;
/** Above the size of any body that Berth writes: no larger size is believed for a body that is gone. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

type Cut = Retention & Required<Pick<Retention, "cut">>;

/** The contents of one tenant, either its calls or everything else. */
interface Contents {
  /** The number up to which records of retention allow contents to be gone: now, and when the head was kept. */
  through: number;
  keptThrough: number;
  /** The record that allows it. */
  record: Retention | undefined;
  /** The last link without contents whose removal the kept head does not cover, and the bytes from it on. */
  last: AuditLink | undefined;
  /** When it was written: not before earlier links, whatever it claims. */
  lastAt: number;
  bytes: number;
}

/**
 * Checks the records of retention against the limits in force. With a kept head, these are the limits that the log had
 * at that time, because anyone able to write the log since then could write any limits; if the log has none from that
 * time any more, the verifier's own limits count. Without a kept head, they are the last limits recorded with or before
 * the record.
 */
class Removals {
  /** The newest record of a removal at the beginning of the log. */
  readonly cut: Cut | undefined;
  /** Added to a message about missing contents if an unreadable record might explain them. */
  readonly damage: string;
  readonly #retentions: readonly Retention[];
  readonly #contents = new Map<string, Contents>();
  readonly #kept: AuditHead | undefined;
  readonly #now = Date.now();
  readonly #limits: Keep;
  #latestAt = 0;

  /** Expects `retentions` newest first. */
  constructor(retentions: readonly Retention[], kept: AuditHead | undefined, limits: Keep) {
    this.#retentions = retentions;
    this.#kept = kept;
    this.#limits = limits;
    this.cut = retentions.find((each): each is Cut => each.cut !== undefined);
    const damaged = retentions.find(({ isDamaged }) => isDamaged);
    this.damage = damaged ? `; the record of retention ${damaged.number} is damaged` : "";
    for (const record of retentions) {
      if (!record.bodies) continue;
      const { through, isCall } = record.bodies;
      const contents = this.#of(record.tenant, isCall);
      if (through > contents.through) Object.assign(contents, { through, record });
      if (this.#wasThere(record)) contents.keptThrough = Math.max(contents.keptThrough, through);
    }
  }

  mayBeGone({ tenant, kind, number }: AuditLink): boolean {
    return kind !== "retention" && number <= this.#of(tenant, kind === "call").through;
  }

  count(link: AuditLink): void {
    this.#latestAt = Math.max(this.#latestAt, link.at);
    if (link.kind === "retention") return;
    const contents = this.#of(link.tenant, link.kind === "call");
    if (link.body === null && link.number > contents.keptThrough)
      Object.assign(contents, { last: link, lastAt: this.#latestAt, bytes: 0 });
    contents.bytes += this.#isProven(link) ? link.bytes : Math.min(link.bytes, BODY_BYTES_MAX);
  }

  /** True when the size is certain: from the body, or from the kept head, which vouches for all links up to it. */
  #isProven({ body, number }: AuditLink): boolean {
    return body !== null || (this.#kept !== undefined && number <= this.#kept.number);
  }

  cutFault(record: Cut, first: AuditLink): string | undefined {
    const { number, hash, last } = record.cut;
    // If the kept head is gone, too, nothing can be proven: `endFault` reports that.
    const isOfNoUse = this.#kept && this.#kept.number < number;
    const limits = isOfNoUse || this.#wasThere(record) ? undefined : this.#limitsFor(record);
    if (!limits) return undefined;
    const isProven = last !== undefined && same(linkHash(last.previous, { ...last, number }), hash);
    // Earlier versions recorded no proof; the next link was hardly ever much younger.
    const at = isProven ? last.at : first.at - UNPROVEN_MS;
    const { auditDays } = limits;
    if (auditDays > 0 && at < this.#now - auditDays * DAY_MS) return undefined;
    const age = isProven
      ? `the last of them dates from ${new Date(at).toISOString()}`
      : "nothing proves how old they were";
    const limit = auditDays > 0 ? `auditDays was ${auditDays}` : "auditDays had no limit";
    return `the links before it were removed, and ${age}; ${limit}${this.#asOf()}${this.#ahead(record)}`;
  }

  bodiesFault(): VerifiedLog["fault"] {
    for (const { last, lastAt, record, bytes } of this.#contents.values()) {
      const limits = last && this.#limitsFor(record!);
      if (!limits) continue;
      const isCall = last.kind === "call";
      const days = isCall ? limits.auditCallDays : 0;
      const bytesMax = isCall ? limits.auditCallBytesPerTenant : limits.auditBytesPerTenant;
      const isOld = days > 0 && lastAt < this.#now - days * DAY_MS;
      const isTooMuch = bytesMax > 0 && bytes > bytesMax * KEPT_SHARE;
      if (isOld || isTooMuch) continue;
      const limit = isCall
        ? `auditCallDays was ${days}, auditCallBytesPerTenant ${bytesMax}`
        : `auditBytesPerTenant was ${bytesMax}`;
      const message = `its contents were removed, though neither too old nor too large: ${limit}${this.#asOf()}${this.#ahead(record!)}`;
      return { number: last.number, message };
    }
    return undefined;
  }

  /** Undefined if no limits are known: from before limits were recorded. */
  #limitsFor({ number }: Retention): Keep | undefined {
    const latest = this.#kept?.number ?? number;
    const stated = this.#retentions.find((each) => each.limits && each.number <= latest)?.limits;
    // The record that states them may be among those removed.
    return stated ?? (this.#kept && this.#limits);
  }

  #asOf(): string {
    return this.#kept ? " at the kept head. If the limit has changed since, give a head that was kept later" : "";
  }

  /** The note about a removal by a clock that was set back since. */
  #ahead({ at }: Retention): string {
    if (at <= this.#now) return "";
    const date = new Date(at).toISOString();
    return `. They were removed by a clock that stood at ${date}; a head that was kept later proves what came after`;
  }

  #wasThere({ number }: Retention): boolean {
    return this.#kept !== undefined && number <= this.#kept.number;
  }

  #of(tenant: string, isCall: boolean): Contents {
    const key = JSON.stringify([tenant, isCall]);
    const known = this.#contents.get(key);
    if (known) return known;
    const made = { through: 0, keptThrough: 0, record: undefined, last: undefined, lastAt: 0, bytes: 0 };
    this.#contents.set(key, made);
    return made;
  }
}

function placeFault(previous: AuditHead, link: AuditLink, isCut: boolean, damage: string): string | undefined {
  if (link.number === previous.number + 1) return undefined;
  if (isCut) return `the log begins here, but says that it begins at ${previous.number + 1}`;
  const missing = previous.number + 1;
  return `the link ${missing}${missing === link.number - 1 ? "" : ` to ${link.number - 1}`} before it is missing${damage}`;
}

/** SQLite keeps a value of any type in any column. */
function columnsFault({ at, since, tenant, kind, records, bytes }: AuditLink): string | undefined {
  const isRight =
    [at, since, records, bytes].every((each) => Number.isSafeInteger(each)) &&
    [tenant, kind].every((each) => typeof each === "string");
  return isRight ? undefined : "it is damaged: one of its columns has the wrong type";
}

function hashFault(previous: AuditHead, link: AuditLink): string | undefined {
  if (same(linkHash(previous.hash, link), link.hash)) return undefined;
  return "it does not follow from the link before it: one of the two was changed, or something between them is gone";
}

function bodyFault({ body, digest, bytes }: AuditLink, mayBeGone: boolean, damage: string): string | undefined {
  if (body === null)
    return mayBeGone ? undefined : `its contents are gone, and no record of retention says so${damage}`;
  const isRight = Buffer.byteLength(body) === bytes && same(hash("sha256", body, "buffer"), digest);
  return isRight ? undefined : "its contents are not those that were recorded";
}

function keptFault(kept: AuditHead, link: AuditLink): string | undefined {
  if (same(kept.hash, link.hash)) return undefined;
  return `it is ${hexOf(link.hash)}, and was ${hexOf(kept.hash)}: the log was rewritten`;
}

/** The fault of a kept head that lies outside the log. */
function endFault(kept: AuditHead, start: AuditHead | undefined, head: AuditHead): VerifiedLog["fault"] {
  const { number } = kept;
  if (number > head.number)
    return { number, message: `the log ends at ${head.number}: what came after it was cut off` };
  if (!start || number > start.number || (number === start.number && same(kept.hash, start.hash))) return undefined;
  const message = `the log begins after it, at ${start.number + 1}: nothing shows whether it was ever there`;
  return { number, message };
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
