import { canonicalJson } from "../lib/canonical-json.ts";
import { isObject, tryParseObject, type JsonObject } from "../lib/json.ts";
import {
  auditEntry,
  RETAINED_SHARE,
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type Chain,
  type AuditRetentionLimits,
  type RemovedLink,
  type Retention,
} from "./audit-entry.ts";
import { GENESIS, toHex } from "./chain.ts";

/** The maximum removed in one step, so that no step delays calls for long. */
export const REMOVED_LINKS = 250;
const REMOVED_BYTES = 1024 * 1024;
const DAY_MS = 86_400_000;
/**
 * After a gap of this length, the clock may have been set forward: ages are measured from before the gap until the log
 * has continued for as long.
 */
export const LEAP_MS = 7 * DAY_MS;
/**
 * Limits are recorded again after this time, so that any saved head closely follows such a record, and so that a
 * running Berth never leaves a gap of `LEAP_MS` in the log.
 */
const LIMITS_REPEAT_MS = 6 * DAY_MS;

/** The times of links around `LEAP_MS` ago; undefined or null if there are none. */
interface Times {
  readonly now: number;
  readonly latest: number | null | undefined;
  readonly lastBefore: number | null | undefined;
  readonly firstFrom: number | null | undefined;
}

/**
 * The time from which ages are measured: the clock, or the log's last time before a leap of the clock. So a wrong clock
 * does not empty the log.
 */
export function effectiveNow({ now, latest, lastBefore, firstFrom }: Times): number {
  // The clock was set back.
  if ((latest ?? 0) > now) return now;
  const lastTime = lastBefore ?? now;
  return (firstFrom ?? now) - lastTime > LEAP_MS ? lastTime : now;
}

export function daysBefore(days: number, present: number): number {
  return present - days * DAY_MS;
}

export interface RemovableLink extends Omit<AuditLink, "body"> {
  /** The size of the body; 0 if retention may have removed it already. */
  readonly retainedBytes: number;
  /** The body if this is a record of retention. */
  readonly retentionBody: string | null;
}

/** The links to remove in one step, from the oldest ones of a chain. */
export function linksToRemove(oldest: readonly RemovableLink[], before: number): RemovableLink[] {
  const removed: RemovableLink[] = [];
  let bytes = 0;
  for (const link of oldest) {
    if (link.at >= before || bytes > REMOVED_BYTES) break;
    removed.push(link);
    bytes += link.retainedBytes;
  }
  return removed;
}

/** The record of the removal of links from the beginning of a chain, after the given head. */
export function linkRemovalEntry(
  removed: readonly RemovableLink[],
  head: AuditHead,
  keep: AuditRetentionLimits,
): AuditEntry {
  const through = removed.at(-1)!;
  const { chain, number, at, since, tenant, kind, records, bytes, digest } = through;
  const previous = toHex(removed.at(-2)?.hash ?? head.hash);
  const last = { at, since, tenant, kind, records, bytes, digest: toHex(digest), previous };
  const facts = { links: removed.length, through: number, hash: toHex(through.hash), last, reason: "auditDays" };
  return retentionEntry(SERVICE, keep, { ...(chain !== null && { chain }), ...facts });
}

/** Bodies of one tenant that are due for removal: those of calls, or all others. */
export interface DueBodies {
  readonly tenant: string;
  readonly isCall: boolean;
  /** The oldest ones are removed until this many bytes are freed; 0 for none. */
  readonly excess: number;
  /** All bodies before this time are removed. */
  readonly before: number;
}

export function maxBodyBytes(
  isCall: boolean,
  { auditCallBytesPerTenant, auditBytesPerTenant }: AuditRetentionLimits,
): number {
  return (isCall ? auditCallBytesPerTenant : auditBytesPerTenant) || Infinity;
}

export function excessBytes(bytes: number, bytesMax: number): number {
  return bytes > bytesMax ? bytes - bytesMax * RETAINED_SHARE : 0;
}

type StoredLink = Pick<AuditLink, "number" | "arrival" | "at" | "bytes" | "records">;

interface RemovedBodies {
  readonly record: AuditEntry;
  readonly arrivals: readonly number[];
  readonly bytes: number;
}

/** Selects the oldest bodies of a tenant to remove in one step, with the record; undefined if there are none. */
export function bodiesToRemove(
  oldest: readonly StoredLink[],
  { tenant, isCall, excess, before }: DueBodies,
  keep: AuditRetentionLimits,
): RemovedBodies | undefined {
  let [bytes, records] = [0, 0];
  const removed: StoredLink[] = [];
  for (const link of oldest) {
    const isDue = bytes < excess || (isCall && link.at < before);
    if (!isDue || bytes > REMOVED_BYTES) break;
    bytes += link.bytes;
    records += link.records;
    removed.push(link);
  }
  const through = removed.at(-1);
  if (!through) return undefined;
  const reason = excess > 0 ? (isCall ? "auditCallBytesPerTenant" : "auditBytesPerTenant") : "auditCallDays";
  const facts = { of: isCall ? "calls" : "changes", records, bytes, through: through.number, reason };
  const record = retentionEntry(tenant, keep, { chain: tenant, ...facts });
  return { record, arrivals: removed.map(({ arrival }) => arrival), bytes };
}

/** A record of the limits alone: later removals must comply with limits that the log itself has recorded. */
export function limitsEntry(keep: AuditRetentionLimits): AuditEntry {
  return retentionEntry(SERVICE, keep, {});
}

/** True if the latest record of limits has these limits and is recent enough. */
export function isRecorded(
  latest: Pick<Retention, "at" | "limits"> | undefined,
  keep: AuditRetentionLimits,
  now: number,
): boolean {
  if (!latest?.limits || latest.at <= now - LIMITS_REPEAT_MS) return false;
  return canonicalJson(pickLimits(latest.limits)) === canonicalJson(pickLimits(keep));
}

function retentionEntry(tenant: string, keep: AuditRetentionLimits, facts: JsonObject): AuditEntry {
  return auditEntry(tenant, "retention", { ...facts, limits: pickLimits(keep) });
}

function pickLimits({ auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant }: AuditRetentionLimits) {
  return { auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant };
}

/**
 * The chain end that is no longer needed when this link is removed, because the link recorded the removal of all of the
 * chain: a new tenant with that name starts a new chain.
 */
export function forgottenChainEnd({ tenant, retentionBody }: Pick<RemovableLink, "tenant" | "retentionBody">) {
  if (retentionBody === null) return undefined;
  const { cut } = readRetention({ ...NO_POSITION, tenant, body: retentionBody });
  return cut && cut.chain !== null && cut.chain !== SERVICE ? { chain: cut.chain, number: cut.number } : undefined;
}

const NO_POSITION = { chain: SERVICE, number: 0, arrival: 0, at: 0 } as const;

interface RetentionFacts {
  readonly limits?: AuditRetentionLimits;
  readonly through?: number;
  readonly hash?: string;
  readonly of?: string;
  /** Missing for the chain of anchors. */
  readonly chain?: string;
  readonly last?: Omit<RemovedLink, "digest" | "previous"> & { readonly digest: string; readonly previous: string };
}

/** Reads a record of retention. A damaged one is reported as `isDamaged`. */
export function readRetention({
  body,
  ...position
}: Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "tenant" | "body">): Retention {
  const facts = tryParseObject(body ?? "");
  if (!facts || !isRetentionFacts(facts)) return { ...position, isDamaged: true };
  const { limits, through, hash, of, last, chain = null } = facts;
  const record = { ...position, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (position.tenant !== SERVICE || hash === undefined) {
    return { ...record, bodies: { through, isCall: of === "calls" } };
  }
  const removed = last && { ...last, digest: fromHex(last.digest), previous: fromHex(last.previous) };
  return { ...record, cut: { chain, number: through, hash: fromHex(hash), last: removed } };
}

function isRetentionFacts(facts: JsonObject): facts is JsonObject & RetentionFacts {
  const { limits, through, hash, of, chain, last } = facts;
  return (
    (limits === undefined || (isObject(limits) && LIMITS.every((name) => Number.isFinite(limits[name])))) &&
    (through === undefined || Number.isSafeInteger(through)) &&
    [hash, of, chain].every((text) => text === undefined || typeof text === "string") &&
    (last === undefined ||
      (isObject(last) &&
        LAST_NUMBERS.every((name) => Number.isSafeInteger(last[name])) &&
        LAST_TEXTS.every((name) => typeof last[name] === "string")))
  );
}

const LIMITS = ["auditDays", "auditCallDays", "auditBytesPerTenant", "auditCallBytesPerTenant"] as const;
const LAST_NUMBERS = ["at", "since", "records", "bytes"] as const;
const LAST_TEXTS = ["tenant", "kind", "digest", "previous"] as const;

function fromHex(hex: string): Uint8Array {
  return Buffer.from(hex, "hex");
}

/** The head before the first remaining link of a chain: where the chain was cut, or where it began. */
export function headBefore(chain: Chain, retentions: readonly Retention[]): AuditHead {
  return retentions.find(({ cut }) => cut?.chain === chain)?.cut ?? GENESIS;
}
