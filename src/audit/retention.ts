import { canonicalJson } from "../lib/canonical-json.ts";
import { isObject, soundObject, type JsonObject } from "../lib/json.ts";
import {
  entryOf,
  KEPT_SHARE,
  SERVICE,
  type AuditEntry,
  type AuditHead,
  type AuditLink,
  type Chain,
  type Keep,
  type RemovedLink,
  type Retention,
} from "./audit-entry.ts";
import { GENESIS, hexOf } from "./chain.ts";

/** The most that one step of retention removes, so that none delays calls for long. */
export const REMOVED_LINKS = 250;
const REMOVED_BYTES = 1024 * 1024;
const DAY_MS = 86_400_000;
/**
 * After this long without a record, the clock may have been set forward: age counts once the log has gone on for as
 * long.
 */
export const LEAP_MS = 7 * DAY_MS;
/**
 * The limits are recorded again after this long, so that any saved head is preceded by them at a short distance, and so
 * that the log is never silent for longer while Berth runs.
 */
const LIMITS_STATED_MS = 6 * DAY_MS;

/** The times of links around `LEAP_MS` ago; undefined or null where there is none. */
interface Times {
  readonly now: number;
  readonly latest: number | null | undefined;
  readonly lastBefore: number | null | undefined;
  readonly firstFrom: number | null | undefined;
}

/**
 * The time that ages are measured from: the clock, or the log's time before the clock leapt. A wrong clock empties no
 * log.
 */
export function presentOf({ now, latest, lastBefore, firstFrom }: Times): number {
  // The clock was set back.
  if ((latest ?? 0) > now) return now;
  const before = lastBefore ?? now;
  return (firstFrom ?? now) - before > LEAP_MS ? before : now;
}

export function daysBefore(days: number, present: number): number {
  return present - days * DAY_MS;
}

export interface RemovableLink extends Omit<AuditLink, "body"> {
  /** The size of the body, if retention may have removed it before. */
  readonly keptBytes: number;
  /** The body of a record of retention. */
  readonly said: string | null;
}

/** The links that go in one step, of the oldest ones of a chain. */
export function linksToRemove(oldest: readonly RemovableLink[], before: number): RemovableLink[] {
  const removed: RemovableLink[] = [];
  let bytes = 0;
  for (const link of oldest) {
    if (link.at >= before || bytes > REMOVED_BYTES) break;
    removed.push(link);
    bytes += link.keptBytes;
  }
  return removed;
}

/** The record of the removal of links from the beginning of a chain, and of the head before them. */
export function recordOfLinks(removed: readonly RemovableLink[], head: AuditHead, keep: Keep): AuditEntry {
  const through = removed.at(-1)!;
  const { chain, number, at, since, tenant, kind, records, bytes, digest } = through;
  const previous = hexOf(removed.at(-2)?.hash ?? head.hash);
  const last = { at, since, tenant, kind, records, bytes, digest: hexOf(digest), previous };
  const facts = { links: removed.length, through: number, hash: hexOf(through.hash), last, reason: "auditDays" };
  return recordOf(SERVICE, keep, { ...(chain !== null && { chain }), ...facts });
}

/** Bodies of one tenant that go: of its calls, or of all else. */
export interface DueBodies {
  readonly tenant: string;
  readonly isCall: boolean;
  /** The oldest ones go until so many bytes are gone; 0 for none. */
  readonly over: number;
  /** All from before this go. */
  readonly before: number;
}

/** The most bytes of bodies that a tenant may have. */
export function bodyBytesMax(isCall: boolean, { auditCallBytesPerTenant, auditBytesPerTenant }: Keep): number {
  return (isCall ? auditCallBytesPerTenant : auditBytesPerTenant) || Infinity;
}

/** How many bytes go where there are so many. */
export function bytesOver(bytes: number, bytesMax: number): number {
  return bytes > bytesMax ? bytes - bytesMax * KEPT_SHARE : 0;
}

type KeptLink = Pick<AuditLink, "number" | "arrival" | "at" | "bytes" | "records">;

interface RemovedBodies {
  readonly record: AuditEntry;
  readonly arrivals: readonly number[];
  readonly bytes: number;
}

/** The removal of one step, of a tenant's oldest bodies, with the record of it; undefined where nothing goes. */
export function bodiesToRemove(
  oldest: readonly KeptLink[],
  { tenant, isCall, over, before }: DueBodies,
  keep: Keep,
): RemovedBodies | undefined {
  let [bytes, records] = [0, 0];
  const removed: KeptLink[] = [];
  for (const link of oldest) {
    const isWanted = bytes < over || (isCall && link.at < before);
    if (!isWanted || bytes > REMOVED_BYTES) break;
    bytes += link.bytes;
    records += link.records;
    removed.push(link);
  }
  const through = removed.at(-1);
  if (!through) return undefined;
  const reason = over > 0 ? (isCall ? "auditCallBytesPerTenant" : "auditBytesPerTenant") : "auditCallDays";
  const facts = { of: isCall ? "calls" : "changes", records, bytes, through: through.number, reason };
  const record = recordOf(tenant, keep, { chain: tenant, ...facts });
  return { record, arrivals: removed.map(({ arrival }) => arrival), bytes };
}

/** The record of the limits alone: later removals have to be within limits that the log itself has stated. */
export function recordOfLimits(keep: Keep): AuditEntry {
  return recordOf(SERVICE, keep, {});
}

/** True where the newest statement of limits, if any, is of these, and not too long ago. */
export function isStated(stated: Pick<Retention, "at" | "limits"> | undefined, keep: Keep, now: number): boolean {
  if (!stated?.limits || stated.at <= now - LIMITS_STATED_MS) return false;
  return canonicalJson(limitsOf(stated.limits)) === canonicalJson(limitsOf(keep));
}

function recordOf(tenant: string, keep: Keep, facts: JsonObject): AuditEntry {
  return entryOf(tenant, "retention", { ...facts, limits: limitsOf(keep) });
}

/** The limits alone, without other fields. */
function limitsOf({ auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant }: Keep) {
  return { auditDays, auditCallDays, auditBytesPerTenant, auditCallBytesPerTenant };
}

/**
 * The end of a chain that nobody is told of once this link is gone, which said that all of it was removed: a tenant of
 * its name then begins a new one.
 */
export function forgottenWith({ tenant, said }: Pick<RemovableLink, "tenant" | "said">) {
  if (said === null) return undefined;
  const { cut } = readRetention({ ...NOWHERE, tenant, body: said });
  return cut && cut.chain !== null && cut.chain !== SERVICE ? { chain: cut.chain, number: cut.number } : undefined;
}

const NOWHERE = { chain: SERVICE, number: 0, arrival: 0, at: 0 } as const;

interface Facts {
  readonly limits?: Keep;
  readonly through?: number;
  readonly hash?: string;
  readonly of?: string;
  /** Missing for the chain of the anchors. */
  readonly chain?: string;
  readonly last?: Omit<RemovedLink, "digest" | "previous"> & { readonly digest: string; readonly previous: string };
}

/** Reads a record of retention. For one that went bad on the disk it only says that it is there. */
export function readRetention({
  body,
  ...place
}: Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "tenant" | "body">): Retention {
  const facts = soundObject(body ?? "");
  if (!facts || !areFacts(facts)) return { ...place, isDamaged: true };
  const { limits, through, hash, of, last, chain = null } = facts;
  const record = { ...place, ...(limits && { limits }) };
  if (through === undefined) return record;
  if (place.tenant !== SERVICE || hash === undefined) {
    return { ...record, bodies: { through, isCall: of === "calls" } };
  }
  const removed = last && { ...last, digest: bytesOf(last.digest), previous: bytesOf(last.previous) };
  return { ...record, cut: { chain, number: through, hash: bytesOf(hash), last: removed } };
}

function areFacts(facts: JsonObject): facts is JsonObject & Facts {
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

function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, "hex");
}

/** The head before the first link of a chain that is there: where the chain was cut, or where it began. */
export function headBefore(chain: Chain, retentions: readonly Retention[]): AuditHead {
  return retentions.find(({ cut }) => cut?.chain === chain)?.cut ?? GENESIS;
}
