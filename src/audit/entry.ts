import type { JsonObject } from "../lib/json.ts";

/**
 * What the audit log is made of. This folder owns what is recorded, how it is written down, how records hang together
 * and how that is checked, and the calls that wait to be recorded. It knows no HTTP, no MCP and no SQL: a store keeps
 * the links (`AuditLinks`), and writes those of a change in the transaction of the change.
 */
export const AUDIT_KINDS = [
  "call",
  "edit",
  "approval",
  "secret",
  "token",
  "tenant",
  "login",
  "service",
  "retention",
] as const;

export type AuditKind = (typeof AUDIT_KINDS)[number];

/** The records of the service itself, which are no tenant's. */
export const SERVICE = "";

/** Something that is to be recorded, before it has its place. Never holds a secret, a token or any content. */
export interface AuditEntry {
  readonly tenant: string;
  readonly kind: AuditKind;
  /** JSON, as UTF-8: of calls a block of many (`call-block.ts`), else the facts of one record. */
  readonly body: string | Uint8Array;
  /** How many records the body has. */
  readonly records: number;
  /** When the earliest of them happened, in milliseconds since the epoch; undefined for now. */
  readonly since?: number;
}

/** An entry with its place in the chain. */
export interface AuditLink {
  /** From 1, without a gap. */
  readonly number: number;
  /** Milliseconds since the epoch: when it was written, and when the earliest of its records happened. */
  readonly at: number;
  readonly since: number;
  readonly tenant: string;
  readonly kind: AuditKind;
  readonly records: number;
  /** Of the body, as UTF-8. */
  readonly bytes: number;
  /** SHA-256 of the body; it stays when the body is removed. */
  readonly digest: Uint8Array;
  /** SHA-256 of the link before and of this one. */
  readonly hash: Uint8Array;
  /** Null once retention has removed it. */
  readonly body: string | null;
}

/** The end of the chain as it was at some moment: whoever keeps it elsewhere can tell later that nothing was taken away. */
export interface AuditHead {
  readonly number: number;
  readonly hash: Uint8Array;
}

/** Who keeps the links. */
export interface AuditLinks {
  /**
   * Appends entries, all or none. They outlive this process from then on, and a power cut soon after. Rejects with
   * `store_failed`, at once where another process is writing, unless it is `patient`.
   */
  append(entries: readonly AuditEntry[], options?: { readonly patient?: boolean }): Promise<void>;

  /** The newest first, between two moments, after a place; at most `max`. */
  newest(query: LinkQuery): AuditLink[];

  /** All of them, in their order. */
  all(): Iterable<AuditLink>;

  /** What the log itself says of what was removed, the newest first. */
  retentions(): Retention[];

  head(): AuditHead | undefined;

  /** Removes some of what is older or more than `keep` allows; true when there may be more to remove. */
  retain(keep: Keep): Promise<boolean>;
}

export interface LinkQuery {
  /** Undefined for those of all tenants and of the service. */
  readonly tenant?: string | undefined;
  readonly kind?: AuditKind | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** The place of the link that is the first to be given; without it the newest. */
  readonly from?: { readonly at: number; readonly number: number } | undefined;
  readonly max: number;
}

/** Once there is too much, so much is left of what is allowed: a record of it is not to come with each new call. */
export const KEPT_SHARE = 0.9;

/** 0 is without a limit, for each of them. */
export interface Keep {
  readonly auditDays: number;
  readonly auditCallDays: number;
  readonly auditBytesPerTenant: number;
  readonly auditCallBytesPerTenant: number;
}

/** A record of retention: of what it has removed, if anything, and of the limits that were in force then. */
export interface Retention {
  readonly number: number;
  readonly at: number;
  readonly tenant: string;
  /** It cannot be read, so that nothing else is known of it. */
  readonly isDamaged?: true;
  /** Missing in what was written before limits were recorded. */
  readonly limits?: Keep;
  /** Of one of the service: all links up to this one are gone. */
  readonly cut?: AuditHead & { readonly last: RemovedLink | undefined };
  /** Bodies of the tenant up to this number are gone, of its calls or of all else. */
  readonly bodies?: { readonly through: number; readonly isCall: boolean };
}

/** The last link that was removed, whole: its hash, to which the next link holds, proves its time. */
export interface RemovedLink extends Omit<AuditLink, "hash" | "body" | "number"> {
  /** The hash of the link before it. */
  readonly previous: Uint8Array;
}

/** Of one record that happens now. */
export function entryOf(tenant: string, kind: AuditKind, facts: JsonObject): AuditEntry {
  return { tenant, kind, body: JSON.stringify(facts), records: 1 };
}

/** By what way, and who where anybody was asked: `page, token:1a2b` as histories have it. */
export function actorOf(by: string): { by: string; principal?: string } {
  const at = by.indexOf(", ");
  return at < 0 ? { by } : { by: by.slice(0, at), principal: by.slice(at + 2) };
}
