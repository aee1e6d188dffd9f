import type { Json, JsonObject } from "../json.ts";
import { readCallBlock } from "./call-block.ts";
import { hexOf } from "./chain.ts";
import type { AuditKind, AuditLink } from "./entry.ts";

/** One record as it is shown: what it is about depends on its kind (docs/audit.md). */
export interface AuditRecord extends JsonObject {
  /** ISO 8601, in UTC: when it happened. */
  readonly at: string;
  /** Null for one of the service itself. */
  readonly tenant: string | null;
  readonly kind: AuditKind;
}

/** The records of a link, the newest first. */
export function recordsOf(link: AuditLink): AuditRecord[] {
  const { kind, body } = link;
  const shown = (at: number, facts: JsonObject): AuditRecord => {
    return { at: new Date(at).toISOString(), tenant: link.tenant || null, kind, ...facts };
  };
  if (body === null) return [shown(link.at, { removed: link.records, digest: hexOf(link.digest) })];
  if (kind !== "call") return [shown(link.at, JSON.parse(body) as JsonObject)];
  const { calls, dropped } = readCallBlock(body);
  const records = calls.map(({ endedAt, ...facts }) => shown(endedAt, withoutUndefined(facts)));
  // A call that takes long can end after one that began later has been written.
  records.reverse();
  return dropped > 0 ? [shown(link.at, { dropped }), ...records] : records;
}

function withoutUndefined(facts: object): JsonObject {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}

/** What records are asked for; what is left out does not matter. */
export interface AuditFilter {
  readonly kind?: AuditKind | undefined;
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
  readonly principal?: string | undefined;
  readonly outcome?: string | undefined;
  /** Milliseconds since the epoch, both included. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

export function fits(record: AuditRecord, filter: AuditFilter): boolean {
  const { kind, server, tool, principal, outcome, since, until } = filter;
  if (kind !== undefined && record.kind !== kind) return false;
  if (tool !== undefined && record["tool"] !== tool) return false;
  if (principal !== undefined && record["principal"] !== principal) return false;
  if (outcome !== undefined && record["outcome"] !== outcome) return false;
  if (server !== undefined && !isAbout(record, server)) return false;
  const at = Date.parse(record.at);
  return (since === undefined || at >= since) && (until === undefined || at <= until);
}

/** Called there, or changed: by its own names, or as what an edit was about. */
function isAbout(record: AuditRecord, server: string): boolean {
  if (record["server"] === server) return true;
  const about = [record["subject"], ...(Array.isArray(record["names"]) ? record["names"] : [])];
  return about.some((each) => isServer(each, server));
}

function isServer(about: Json | undefined, server: string): boolean {
  const { kind, name } = (about ?? {}) as { kind?: unknown; name?: unknown };
  return name === server && kind !== "variable";
}
