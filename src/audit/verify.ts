import { hash } from "node:crypto";
import { defaultLimits } from "../limits/limits.ts";
import {
  RETAINED_SHARE,
  SERVICE,
  type AuditHead,
  type AuditLink,
  type ReadableLinks,
  type Chain,
  type ChainHead,
  type AuditRetentionLimits,
  type Retention,
} from "./audit-entry.ts";
import { GENESIS, toHex, linkHash, parseAnchor } from "./chain.ts";

export interface VerifiedLog {
  /** The first fault and its link; undefined if there is none. */
  readonly fault: LogFault | undefined;
  /** The last anchor, if any. */
  readonly head: AuditHead | undefined;
  /** The number of chains of tenants and of the service that have links. */
  readonly chains: number;
  readonly anchors: number;
  readonly links: number;
  /** Links not yet covered by an anchor: only the store's own chain ends attest them. */
  readonly unanchored: number;
  readonly records: number;
  /** Records whose contents were removed by retention, while their links remain. */
  readonly removedRecords: number;
  /** Links and anchors that were removed by retention. */
  readonly removedLinks: number;
}

export interface LogFault {
  readonly chain: Chain;
  readonly number: number;
  readonly message: string;
}

/** Formats the position and the fault for people. */
export function formatFault({ chain, number, message }: LogFault): string {
  const owner = chain === SERVICE ? "the service" : `the tenant ${chain}`;
  return `${chain === null ? `link ${number}` : `link ${number} of ${owner}`}: ${message}`;
}

/**
 * Walks all chains at once, in order of arrival. Each link must follow from the previous one in its chain, each body
 * must match its link, and each anchor must contain the current heads of the chains. Every removal must be covered by a
 * record of retention. The link of `savedHead` must be present: without such a head, a log whose end was cut off, in
 * the store's own chain ends as well, is indistinguishable from a log that ended there.
 */
export async function verifyLog(
  log: ReadableLinks,
  savedHead?: AuditHead,
  limits: AuditRetentionLimits = defaultLimits,
): Promise<VerifiedLog> {
  const chainEnds = await log.heads();
  const coverage = await Coverage.of(log, savedHead);
  const removals = new Removals(await log.retentions(), coverage, limits);
  const chains = new Chains(chainEnds, removals);
  let [anchors, links, unanchored, records, removedRecords] = [0, 0, 0, 0, 0];
  const result = (fault: LogFault | undefined): VerifiedLog => {
    const end = chains.of(null).head;
    return {
      fault,
      head: end.number === 0 ? undefined : end,
      chains: chains.nonEmptyCount,
      anchors,
      links,
      unanchored,
      records,
      removedRecords,
      removedLinks: removals.links,
    };
  };

  for await (const link of log.all()) {
    const { chain, number, kind, body } = link;
    const message =
      chains.placeFault(link) ??
      columnsFault(link) ??
      hashFault(chains.of(chain).head, link) ??
      bodyFault(link, removals.mayBeRemoved(link), removals.damage) ??
      (chain === null && savedHead?.number === number ? savedHeadFault(savedHead, link) : undefined);
    if (message !== undefined) return result({ chain, number, message });
    const fault = kind === "anchor" ? chains.anchorFault(number, body) : undefined;
    if (fault) return result(fault);
    chains.add(link);
    if (kind === "anchor") [anchors, unanchored] = [anchors + 1, 0];
    else {
      [links, unanchored, records] = [links + 1, unanchored + 1, records + link.records];
      if (body === null) removedRecords += link.records;
      removals.count(link);
    }
  }
  return result(
    chains.endsFault() ??
      removals.cutsFault() ??
      removals.bodiesFault() ??
      (savedHead && endFault(savedHead, removals.cutOf(null), chains.of(null).head)),
  );
}

interface ChainState {
  head: AuditHead;
  isBegun?: true;
}

/** The state of the chains at the current position of the walk. */
class Chains {
  readonly #chainEnds: readonly ChainHead[];
  readonly #removals: Removals;
  readonly #states = new Map<Chain, ChainState>();
  /** The chains that have grown since the last anchor. */
  readonly #moved = new Set<string>();
  /** True if a removed anchor may have covered the first links of a chain. */
  #isEarlierAnchorRemoved: boolean;

  constructor(chainEnds: readonly ChainHead[], removals: Removals) {
    this.#chainEnds = chainEnds;
    this.#removals = removals;
    this.#isEarlierAnchorRemoved = removals.cutOf(null) !== undefined;
  }

  of(chain: Chain): ChainState {
    const state = this.#states.get(chain);
    if (state) return state;
    const created = { head: this.#removals.cutOf(chain) ?? GENESIS };
    this.#states.set(chain, created);
    return created;
  }

  /** The number of chains that have links, without that of the anchors. */
  get nonEmptyCount(): number {
    return [...this.#states].filter(([chain, { isBegun }]) => chain !== null && isBegun).length;
  }

  add(link: AuditLink): void {
    const { chain, number, hash } = link;
    this.#states.set(chain, { head: { number, hash }, isBegun: true });
    if (chain !== null) this.#moved.add(chain);
  }

  placeFault({ chain, number }: AuditLink): string | undefined {
    const { head, isBegun } = this.of(chain);
    const missing = head.number + 1;
    if (number === missing) return undefined;
    if (this.#removals.cutOf(chain) && !isBegun) {
      return `the ${chain === null ? "log" : "chain"} begins here, but should begin at ${missing} according to the log`;
    }
    const which = missing >= number - 1 ? String(missing) : `${missing} to ${number - 1}`;
    return `link ${which} before it is missing${this.#removals.damage}`;
  }

  anchorFault(anchor: number, body: string | null): LogFault | undefined {
    const heads = parseAnchor(body);
    if (!heads) return { chain: null, number: anchor, message: "it is an anchor without valid heads" };
    for (const anchored of heads) {
      const { chain, number } = anchored;
      this.#moved.delete(chain);
      if (number < (this.#removals.cutOf(chain)?.number ?? 0)) continue;
      const { head } = this.of(chain);
      if (number === head.number && areEqual(anchored.hash, head.hash)) continue;
      if (number > head.number)
        return cutOffFault(chain, head.number, `anchor ${anchor} covers the chain up to ${number}`);
      const message =
        number === head.number
          ? `it differs from the head in anchor ${anchor}: the chain was rewritten`
          : `it is covered by anchor ${anchor}, which is older: links were reordered`;
      return { chain, number: head.number, message };
    }
    const [uncovered] = this.#isEarlierAnchorRemoved ? [] : this.#moved;
    this.#isEarlierAnchorRemoved = false;
    this.#moved.clear();
    if (uncovered === undefined) return undefined;
    const message = `anchor ${anchor} does not cover it, although it is older than the anchor`;
    return { chain: uncovered, number: this.of(uncovered).head.number, message };
  }

  /** Reports a chain that ends before the store's own chain end. */
  endsFault(): LogFault | undefined {
    for (const { chain, number, hash } of this.#chainEnds) {
      const { head } = this.of(chain);
      if (head.number < number) return cutOffFault(chain, head.number, `the store recorded the chain up to ${number}`);
      if (head.number > number || areEqual(head.hash, hash)) continue;
      return { chain, number, message: "it differs from the end of the chain that the store recorded" };
    }
    return undefined;
  }
}

function cutOffFault(chain: Chain, last: number, why: string): LogFault {
  return { chain, number: last + 1, message: `it is missing, because the end of the chain was cut off: ${why}` };
}

/** The links that the saved head proves: anchors up to itself, and links of other chains that these anchors cover. */
class Coverage {
  readonly savedHead: AuditHead | undefined;
  readonly #coveredUpTo = new Map<string, number>();

  private constructor(savedHead: AuditHead | undefined) {
    this.savedHead = savedHead;
  }

  static async of(log: ReadableLinks, savedHead: AuditHead | undefined): Promise<Coverage> {
    const coverage = new Coverage(savedHead);
    if (savedHead) for await (const anchor of anchorsOf(log)) coverage.#add(anchor, savedHead);
    return coverage;
  }

  #add({ number, body }: AuditLink, savedHead: AuditHead): void {
    if (number > savedHead.number) return;
    for (const anchored of parseAnchor(body) ?? []) {
      this.#coveredUpTo.set(anchored.chain, Math.max(anchored.number, this.#coveredUpTo.get(anchored.chain) ?? 0));
    }
  }

  covers({ chain, number }: Pick<AuditLink, "chain" | "number">): boolean {
    if (!this.savedHead) return false;
    return number <= (chain === null ? this.savedHead.number : (this.#coveredUpTo.get(chain) ?? 0));
  }
}

const ANCHORS_AT_ONCE = 250;

async function* anchorsOf(log: ReadableLinks): AsyncGenerator<AuditLink> {
  let from: AuditLink | undefined;
  do {
    const page: AuditLink[] = await log.newest({ kind: "anchor", from, max: ANCHORS_AT_ONCE + 1 });
    yield* page.slice(0, ANCHORS_AT_ONCE);
    from = page[ANCHORS_AT_ONCE];
  } while (from);
}

const DAY_MS = 86_400_000;
/** Larger than any body that Berth writes. Larger sizes of removed bodies are not trusted. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

type Cut = Retention & Required<Pick<Retention, "cut">>;

/** The contents of one tenant, either of its calls or of everything else. */
interface RemovableContents {
  /** The last link without contents whose removal is newer than the saved head, and the bytes from that link on. */
  last: AuditLink | undefined;
  /** When that link was written: its own claim, but not before earlier links of the tenant. */
  lastAt: number;
  bytes: number;
}

/** Contents of one tenant whose removal is recorded, either of its calls or of everything else. */
interface AllowedRemoval {
  /** The number up to which contents may be removed: now, and at the time of the saved head. */
  through: number;
  savedThrough: number;
  record: Retention | undefined;
}

/**
 * Checks the records of retention against the limits in force. With a saved head, these are the limits that the log had
 * at that time, because a later attacker could record any limits. If the log has none from that time, the limits of the
 * verifier apply. Without a saved head, they are the last limits recorded with or before the record.
 */
class Removals {
  /** Added to a message about missing contents if an unreadable record might explain them. */
  readonly damage: string;
  readonly #retentions: readonly Retention[];
  /** For each chain the newest record of a removal at its beginning. */
  readonly #cuts = new Map<Chain, Cut>();
  readonly #allowed = new Map<string, AllowedRemoval>();
  readonly #contents = new Map<string, RemovableContents>();
  readonly #latestAt = new Map<string, number>();
  readonly #coverage: Coverage;
  readonly #now = Date.now();
  readonly #limits: AuditRetentionLimits;

  /** Expects `retentions` newest first. */
  constructor(retentions: readonly Retention[], coverage: Coverage, limits: AuditRetentionLimits) {
    this.#retentions = retentions;
    this.#coverage = coverage;
    this.#limits = limits;
    const damaged = retentions.find(({ isDamaged }) => isDamaged);
    this.damage = damaged ? `; the record of retention ${damaged.number} is damaged` : "";
    for (const record of retentions) {
      if (isCut(record) && !this.#cuts.has(record.cut.chain)) this.#cuts.set(record.cut.chain, record);
      if (!record.bodies) continue;
      const { through, isCall } = record.bodies;
      const allowed = this.#allowedOf(record.tenant, isCall);
      if (through > allowed.through) Object.assign(allowed, { through, record });
      if (coverage.covers(record)) allowed.savedThrough = Math.max(allowed.savedThrough, through);
    }
  }

  /** The last link that was removed from the beginning of a chain. */
  cutOf(chain: Chain): AuditHead | undefined {
    return this.#cuts.get(chain)?.cut;
  }

  /** The number of links that were removed. */
  get links(): number {
    return [...this.#cuts.values()].reduce((links, { cut }) => links + cut.number, 0);
  }

  mayBeRemoved({ tenant, kind, number }: AuditLink): boolean {
    if (kind === "retention" || kind === "anchor") return false;
    return number <= this.#allowedOf(tenant, kind === "call").through;
  }

  count(link: AuditLink): void {
    const { tenant, kind, number } = link;
    const latestAt = Math.max(this.#latestAt.get(tenant) ?? 0, link.at);
    this.#latestAt.set(tenant, latestAt);
    if (kind === "retention") return;
    const isCall = kind === "call";
    const contents = this.#contentsOf(tenant, isCall);
    if (link.body === null && number > this.#allowedOf(tenant, isCall).savedThrough)
      Object.assign(contents, { last: link, lastAt: latestAt, bytes: 0 });
    contents.bytes += this.#isProven(link) ? link.bytes : Math.min(link.bytes, BODY_BYTES_MAX);
  }

  /** True if the size is certain: from the body, or from the saved head, which vouches for all earlier links. */
  #isProven(link: AuditLink): boolean {
    return link.body !== null || this.#coverage.covers(link);
  }

  cutsFault(): LogFault | undefined {
    for (const [chain, record] of this.#cuts) {
      const message = this.#cutFault(record);
      if (message !== undefined) return { chain, number: record.cut.number + 1, message };
    }
    return undefined;
  }

  #cutFault(record: Cut): string | undefined {
    const { number, hash, last } = record.cut;
    const { savedHead } = this.#coverage;
    // If the saved head itself was removed, nothing can be proven: `endFault` reports that.
    const isSavedHeadRemoved = savedHead && savedHead.number < (this.cutOf(null)?.number ?? 0);
    const limits = isSavedHeadRemoved || this.#coverage.covers(record) ? undefined : this.#limitsFor(record);
    if (!limits) return undefined;
    const provenAt = last && areEqual(linkHash(last.previous, { ...last, number }), hash) ? last.at : undefined;
    const { auditDays } = limits;
    if (auditDays > 0 && provenAt !== undefined && provenAt < this.#now - auditDays * DAY_MS) return undefined;
    const age =
      provenAt === undefined
        ? "their age cannot be proven"
        : `the last of them dates from ${new Date(provenAt).toISOString()}`;
    const limit = auditDays > 0 ? `auditDays was ${auditDays}` : "auditDays was unlimited";
    return `the links before it were removed, and ${age}; ${limit}${this.#limitsNote()}${this.#clockNote(record)}`;
  }

  bodiesFault(): LogFault | undefined {
    for (const { last, lastAt, bytes } of this.#contents.values()) {
      if (!last) continue;
      const isCall = last.kind === "call";
      const { record } = this.#allowedOf(last.tenant, isCall);
      const limits = this.#limitsFor(record!);
      if (!limits) continue;
      const days = isCall ? limits.auditCallDays : 0;
      const bytesMax = isCall ? limits.auditCallBytesPerTenant : limits.auditBytesPerTenant;
      const isOld = days > 0 && lastAt < this.#now - days * DAY_MS;
      const isTooLarge = bytesMax > 0 && bytes > bytesMax * RETAINED_SHARE;
      if (isOld || isTooLarge) continue;
      const limit = isCall
        ? `auditCallDays was ${days}, auditCallBytesPerTenant ${bytesMax}`
        : `auditBytesPerTenant was ${bytesMax}`;
      const message = `its contents were removed, although neither too old nor too large: ${limit}${this.#limitsNote()}${this.#clockNote(record!)}`;
      return { chain: last.chain, number: last.number, message };
    }
    return undefined;
  }

  /** Undefined if no limits are known. */
  #limitsFor({ arrival }: Retention): AuditRetentionLimits | undefined {
    const { savedHead } = this.#coverage;
    const isApplicable = (each: Retention): boolean =>
      savedHead ? this.#coverage.covers(each) : each.arrival <= arrival;
    const recorded = this.#retentions.find((each) => each.limits && isApplicable(each))?.limits;
    // The record with the limits may itself be among those removed.
    return recorded ?? (savedHead && this.#limits);
  }

  #limitsNote(): string {
    if (!this.#coverage.savedHead) return "";
    return " at the saved head. If the limit has changed since, use a head that was saved later";
  }

  /** A note for a removal that happened while the clock was ahead. */
  #clockNote({ at }: Retention): string {
    if (at <= this.#now) return "";
    const date = new Date(at).toISOString();
    return `. They were removed while the clock was at ${date}; a head saved after that proves later records`;
  }

  #contentsOf(tenant: string, isCall: boolean): RemovableContents {
    return getOrCreate(this.#contents, [tenant, isCall], () => ({ last: undefined, lastAt: 0, bytes: 0 }));
  }

  #allowedOf(tenant: string, isCall: boolean): AllowedRemoval {
    return getOrCreate(this.#allowed, [tenant, isCall], () => ({ through: 0, savedThrough: 0, record: undefined }));
  }
}

function isCut(record: Retention): record is Cut {
  return record.cut !== undefined;
}

function getOrCreate<T>(map: Map<string, T>, parts: readonly unknown[], create: () => T): T {
  const key = JSON.stringify(parts);
  const existing = map.get(key);
  if (existing) return existing;
  const created = create();
  map.set(key, created);
  return created;
}

/** SQLite stores values of any type in any column. */
function columnsFault({ at, since, tenant, kind, records, bytes }: AuditLink): string | undefined {
  const isValid =
    [at, since, records, bytes].every((each) => Number.isSafeInteger(each)) &&
    [tenant, kind].every((each) => typeof each === "string");
  return isValid ? undefined : "it is damaged: a column has the wrong type";
}

function hashFault(previous: AuditHead, link: AuditLink): string | undefined {
  if (areEqual(linkHash(previous.hash, link), link.hash)) return undefined;
  return "it does not follow from the previous link: one of the two was changed, or a link between them was removed";
}

function bodyFault({ body, digest, bytes }: AuditLink, mayBeRemoved: boolean, damage: string): string | undefined {
  if (body === null)
    return mayBeRemoved ? undefined : `its contents were removed without a record of retention${damage}`;
  const isValid = Buffer.byteLength(body) === bytes && areEqual(hash("sha256", body, "buffer"), digest);
  return isValid ? undefined : "its contents do not match their digest";
}

function savedHeadFault(savedHead: AuditHead, link: AuditLink): string | undefined {
  if (areEqual(savedHead.hash, link.hash)) return undefined;
  return `its hash is ${toHex(link.hash)}, but was ${toHex(savedHead.hash)}: the log was rewritten`;
}

/** Reports a saved head that lies outside the log. */
function endFault(savedHead: AuditHead, start: AuditHead | undefined, head: AuditHead): LogFault | undefined {
  const { number } = savedHead;
  const chain = null;
  if (number > head.number)
    return { chain, number, message: `the log ends at ${head.number}: later records were cut off` };
  if (!start || number > start.number || (number === start.number && areEqual(savedHead.hash, start.hash)))
    return undefined;
  const message = `the log begins after it, at ${start.number + 1}: it cannot be proven that it ever existed`;
  return { chain, number, message };
}

function areEqual(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
