import { hash } from "node:crypto";
import { defaultLimits } from "../limits/limits.ts";
import {
  KEPT_SHARE,
  SERVICE,
  type AuditHead,
  type AuditLink,
  type ReadableLinks,
  type Chain,
  type ChainHead,
  type Keep,
  type Retention,
} from "./audit-entry.ts";
import { GENESIS, hexOf, linkHash, readAnchor } from "./chain.ts";

export interface VerifiedLog {
  /** The first fault and its link; undefined if there is none. */
  readonly fault: LogFault | undefined;
  /** The last anchor, if there is one. */
  readonly head: AuditHead | undefined;
  /** The chains of tenants and of the service that have links. */
  readonly chains: number;
  readonly anchors: number;
  readonly links: number;
  /** Links that no anchor holds yet: nothing but the store itself knows of them. */
  readonly unanchored: number;
  readonly records: number;
  /** Records whose contents retention removed; their links are there. */
  readonly removedRecords: number;
  /** Links and anchors that retention removed. */
  readonly removedLinks: number;
}

export interface LogFault {
  readonly chain: Chain;
  readonly number: number;
  readonly message: string;
}

/** Its place and what is wrong there, for people. */
export function faultText({ chain, number, message }: LogFault): string {
  const of = chain === SERVICE ? "the service" : `the tenant ${chain}`;
  return `${chain === null ? `link ${number}` : `link ${number} of ${of}`}: ${message}`;
}

/**
 * Walks all chains at once, in order of arrival: each link must follow from the one before it in its chain, each body
 * must match its link, and each anchor must hold the heads of the chains as they stand there. Everything that is
 * removed must be covered by a record of retention. With the `kept` head of an earlier time, that very link must be
 * there: without one, a log whose end was cut off, in the store's own heads as well, looks like one that ended there.
 */
export async function verifyLog(
  log: ReadableLinks,
  kept?: AuditHead,
  limits: Keep = defaultLimits,
): Promise<VerifiedLog> {
  const known = await log.heads();
  const coverage = await Coverage.of(log, kept);
  const removals = new Removals(await log.retentions(), coverage, limits);
  const chains = new Chains(known, removals);
  let [anchors, links, unanchored, records, removedRecords] = [0, 0, 0, 0, 0];
  const state = (fault: LogFault | undefined): VerifiedLog => {
    const end = chains.of(null).head;
    return {
      fault,
      head: end.number === 0 ? undefined : end,
      chains: chains.grown,
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
      bodyFault(link, removals.mayBeGone(link), removals.damage) ??
      (chain === null && kept?.number === number ? keptFault(kept, link) : undefined);
    if (message !== undefined) return state({ chain, number, message });
    const fault = kind === "anchor" ? chains.anchorFault(number, body) : undefined;
    if (fault) return state(fault);
    chains.add(link);
    if (kind === "anchor") [anchors, unanchored] = [anchors + 1, 0];
    else {
      [links, unanchored, records] = [links + 1, unanchored + 1, records + link.records];
      if (body === null) removedRecords += link.records;
      removals.count(link);
    }
  }
  return state(
    chains.endsFault() ??
      removals.cutsFault() ??
      removals.bodiesFault() ??
      (kept && endFault(kept, removals.cutOf(null), chains.of(null).head)),
  );
}

interface ChainState {
  head: AuditHead;
  /** A link of it is there. */
  isBegun?: true;
}

/** The chains, as far as the walk has come. */
class Chains {
  readonly #known: readonly ChainHead[];
  readonly #removals: Removals;
  readonly #states = new Map<Chain, ChainState>();
  /** The chains that have grown since the last anchor. */
  readonly #moved = new Set<string>();
  /** An anchor that is gone may have held what is there of a chain. */
  #isAnchorBeforeGone: boolean;

  constructor(known: readonly ChainHead[], removals: Removals) {
    this.#known = known;
    this.#removals = removals;
    this.#isAnchorBeforeGone = removals.cutOf(null) !== undefined;
  }

  of(chain: Chain): ChainState {
    const state = this.#states.get(chain);
    if (state) return state;
    const made = { head: this.#removals.cutOf(chain) ?? GENESIS };
    this.#states.set(chain, made);
    return made;
  }

  /** The number of chains that have links, apart from that of the anchors. */
  get grown(): number {
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
      return `the ${chain === null ? "log" : "chain"} begins here, but the log says that it begins at ${missing}`;
    }
    const which = missing >= number - 1 ? String(missing) : `${missing} to ${number - 1}`;
    return `the link ${which} before it is missing${this.#removals.damage}`;
  }

  anchorFault(anchor: number, body: string | null): LogFault | undefined {
    const heads = readAnchor(body);
    if (!heads) return { chain: null, number: anchor, message: "it is an anchor that holds no heads" };
    for (const held of heads) {
      const { chain, number } = held;
      this.#moved.delete(chain);
      if (number < (this.#removals.cutOf(chain)?.number ?? 0)) continue;
      const { head } = this.of(chain);
      if (number === head.number && same(held.hash, head.hash)) continue;
      if (number > head.number) return gone(chain, head.number, `the anchor ${anchor} holds the chain up to ${number}`);
      const message =
        number === head.number
          ? `it is not what the anchor ${anchor} holds: the chain was rewritten`
          : `it was not there when the anchor ${anchor} was made: links changed places`;
      return { chain, number: head.number, message };
    }
    const [unheld] = this.#isAnchorBeforeGone ? [] : this.#moved;
    this.#isAnchorBeforeGone = false;
    this.#moved.clear();
    if (unheld === undefined) return undefined;
    const message = `the anchor ${anchor} does not hold it, although it was there before`;
    return { chain: unheld, number: this.of(unheld).head.number, message };
  }

  /** The fault of a chain that does not reach as far as the store itself knows it. */
  endsFault(): LogFault | undefined {
    for (const { chain, number, hash } of this.#known) {
      const { head } = this.of(chain);
      if (head.number < number) return gone(chain, head.number, `the store knows the chain up to ${number}`);
      if (head.number > number || same(head.hash, hash)) continue;
      return { chain, number, message: "it is not what the store knows as the end of the chain" };
    }
    return undefined;
  }
}

function gone(chain: Chain, last: number, why: string): LogFault {
  return { chain, number: last + 1, message: `the end of the chain was cut off: it is missing, and ${why}` };
}

/** The links that a kept head proves: up to itself those of its own chain, and of others those that its anchors hold. */
class Coverage {
  readonly kept: AuditHead | undefined;
  readonly #held = new Map<string, number>();

  private constructor(kept: AuditHead | undefined) {
    this.kept = kept;
  }

  static async of(log: ReadableLinks, kept: AuditHead | undefined): Promise<Coverage> {
    const coverage = new Coverage(kept);
    if (kept) for await (const anchor of anchorsOf(log)) coverage.#add(anchor, kept);
    return coverage;
  }

  #add({ number, body }: AuditLink, kept: AuditHead): void {
    if (number > kept.number) return;
    for (const held of readAnchor(body) ?? []) {
      this.#held.set(held.chain, Math.max(held.number, this.#held.get(held.chain) ?? 0));
    }
  }

  has({ chain, number }: Pick<AuditLink, "chain" | "number">): boolean {
    if (!this.kept) return false;
    return number <= (chain === null ? this.kept.number : (this.#held.get(chain) ?? 0));
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
/** Above the size of any body that Berth writes: no larger size is believed for a body that is gone. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

type Cut = Retention & Required<Pick<Retention, "cut">>;

/** The contents of one tenant, either its calls or everything else. */
interface Contents {
  /** The last link without contents whose removal the kept head does not cover, and the bytes from it on. */
  last: AuditLink | undefined;
  /** When it was written: not before earlier links of the tenant, whatever it claims. */
  lastAt: number;
  bytes: number;
}

/** The contents of one tenant, either its calls or everything else, that may be gone, as records of retention say. */
interface Allowed {
  /** The number up to which contents may be gone: now, and when the head was kept. */
  through: number;
  keptThrough: number;
  /** The record that allows it. */
  record: Retention | undefined;
}

/**
 * Checks the records of retention against the limits in force. With a kept head, these are the limits that the log had
 * at that time, because anyone able to write the log since then could write any limits; if the log has none from that
 * time any more, the verifier's own limits count. Without a kept head, they are the last limits recorded with or before
 * the record.
 */
class Removals {
  /** Added to a message about missing contents if an unreadable record might explain them. */
  readonly damage: string;
  readonly #retentions: readonly Retention[];
  /** For each chain the newest record of a removal at its beginning. */
  readonly #cuts = new Map<Chain, Cut>();
  readonly #allowed = new Map<string, Allowed>();
  readonly #contents = new Map<string, Contents>();
  readonly #latestAt = new Map<string, number>();
  readonly #coverage: Coverage;
  readonly #now = Date.now();
  readonly #limits: Keep;

  /** Expects `retentions` newest first. */
  constructor(retentions: readonly Retention[], coverage: Coverage, limits: Keep) {
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
      if (coverage.has(record)) allowed.keptThrough = Math.max(allowed.keptThrough, through);
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

  mayBeGone({ tenant, kind, number }: AuditLink): boolean {
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
    if (link.body === null && number > this.#allowedOf(tenant, isCall).keptThrough)
      Object.assign(contents, { last: link, lastAt: latestAt, bytes: 0 });
    contents.bytes += this.#isProven(link) ? link.bytes : Math.min(link.bytes, BODY_BYTES_MAX);
  }

  /** True when the size is certain: from the body, or from the kept head, which vouches for all links up to it. */
  #isProven(link: AuditLink): boolean {
    return link.body !== null || this.#coverage.has(link);
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
    const { kept } = this.#coverage;
    // If the kept head is gone, too, nothing can be proven: `endFault` reports that.
    const isOfNoUse = kept && kept.number < (this.cutOf(null)?.number ?? 0);
    const limits = isOfNoUse || this.#coverage.has(record) ? undefined : this.#limitsFor(record);
    if (!limits) return undefined;
    const provenAt = last && same(linkHash(last.previous, { ...last, number }), hash) ? last.at : undefined;
    const { auditDays } = limits;
    if (auditDays > 0 && provenAt !== undefined && provenAt < this.#now - auditDays * DAY_MS) return undefined;
    const age =
      provenAt === undefined
        ? "nothing proves how old they were"
        : `the last of them dates from ${new Date(provenAt).toISOString()}`;
    const limit = auditDays > 0 ? `auditDays was ${auditDays}` : "auditDays had no limit";
    return `the links before it were removed, and ${age}; ${limit}${this.#asOf()}${this.#ahead(record)}`;
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
      const isTooMuch = bytesMax > 0 && bytes > bytesMax * KEPT_SHARE;
      if (isOld || isTooMuch) continue;
      const limit = isCall
        ? `auditCallDays was ${days}, auditCallBytesPerTenant ${bytesMax}`
        : `auditBytesPerTenant was ${bytesMax}`;
      const message = `its contents were removed, though neither too old nor too large: ${limit}${this.#asOf()}${this.#ahead(record!)}`;
      return { chain: last.chain, number: last.number, message };
    }
    return undefined;
  }

  /** Undefined if no limits are known. */
  #limitsFor({ arrival }: Retention): Keep | undefined {
    const { kept } = this.#coverage;
    const counts = (each: Retention): boolean => (kept ? this.#coverage.has(each) : each.arrival <= arrival);
    const stated = this.#retentions.find((each) => each.limits && counts(each))?.limits;
    // The record that states them may be among those removed.
    return stated ?? (kept && this.#limits);
  }

  #asOf(): string {
    if (!this.#coverage.kept) return "";
    return " at the kept head. If the limit has changed since, give a head that was kept later";
  }

  /** The note about a removal by a clock that was set back since. */
  #ahead({ at }: Retention): string {
    if (at <= this.#now) return "";
    const date = new Date(at).toISOString();
    return `. They were removed by a clock that stood at ${date}; a head that was kept later proves what came after`;
  }

  #contentsOf(tenant: string, isCall: boolean): Contents {
    return inMap(this.#contents, [tenant, isCall], () => ({ last: undefined, lastAt: 0, bytes: 0 }));
  }

  #allowedOf(tenant: string, isCall: boolean): Allowed {
    return inMap(this.#allowed, [tenant, isCall], () => ({ through: 0, keptThrough: 0, record: undefined }));
  }
}

function isCut(record: Retention): record is Cut {
  return record.cut !== undefined;
}

function inMap<T>(map: Map<string, T>, parts: readonly unknown[], make: () => T): T {
  const key = JSON.stringify(parts);
  const known = map.get(key);
  if (known) return known;
  const made = make();
  map.set(key, made);
  return made;
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
function endFault(kept: AuditHead, start: AuditHead | undefined, head: AuditHead): LogFault | undefined {
  const { number } = kept;
  const chain = null;
  if (number > head.number)
    return { chain, number, message: `the log ends at ${head.number}: what came after it was cut off` };
  if (!start || number > start.number || (number === start.number && same(kept.hash, start.hash))) return undefined;
  const message = `the log begins after it, at ${start.number + 1}: nothing shows whether it was ever there`;
  return { chain, number, message };
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
