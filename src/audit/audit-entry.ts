import type { JsonObject } from "../lib/json.ts";

/**
 * The kinds of audit records. This folder owns what is recorded, how records are written, chained and verified, and the
 * queue of calls to record. It knows no HTTP, no MCP and no SQL: a store holds the links (`AuditLinks`), and writes the
 * links of a change in the same transaction as the change.
 */
export const AUDIT_KINDS = [
  "call",
  "edit",
  "approval",
  "consent",
  "secret",
  "state",
  "token",
  "tenant",
  "login",
  "service",
  "retention",
] as const;

export type AuditKind = (typeof AUDIT_KINDS)[number];

/** The tenant of records about the service itself. */
export const SERVICE = "";

/** The chain of a link: that of a tenant or of `SERVICE`. Null for the chain of anchors. */
export type Chain = string | null;

/** An event to record, not yet part of a chain. Never contains a secret, a token or any content. */
export interface AuditEntry {
  readonly tenant: string;
  readonly kind: AuditKind;
  /** JSON, as UTF-8: a block of calls (`call-block.ts`), or the facts of one record. */
  readonly body: string | Uint8Array;
  readonly records: number;
  /** The time of the earliest record, in milliseconds since the epoch; now by default. */
  readonly since?: number;
}

/** An entry at its position in a chain. */
export interface AuditLink {
  readonly chain: Chain;
  /** The position in the chain: from 1, without gaps. */
  readonly number: number;
  /** Increases from link to link over all chains of a store. Not covered by a hash. */
  readonly arrival: number;
  /** Milliseconds since the epoch: when the link was written, and when its earliest record happened. */
  readonly at: number;
  readonly since: number;
  readonly tenant: string;
  readonly kind: AuditKind | "anchor";
  readonly records: number;
  /** The size of the body in bytes, as UTF-8. */
  readonly bytes: number;
  /** SHA-256 of the body. It remains after the body is removed. */
  readonly digest: Uint8Array;
  /** SHA-256 over the hash of the previous link in the chain, and this link. */
  readonly hash: Uint8Array;
  /** Null after retention removed it. */
  readonly body: string | null;
}

/** The end of a chain at some moment. A saved head of the anchors proves everything that the anchors cover. */
export interface AuditHead {
  readonly number: number;
  readonly hash: Uint8Array;
}

export interface ChainHead extends AuditHead {
  readonly chain: Chain;
}

/** The storage of the links. */
export interface AuditLinks {
  /**
   * Appends all entries or none. They survive the end of this process immediately, and a power cut soon after. Rejects
   * with `store_failed`: unless `patient`, immediately if the store allows one writer at a time and another is writing.
   * After `store_uncertain`, the same entries may be appended again without being stored twice.
   */
  append(entries: readonly AuditEntry[], options?: { readonly patient?: boolean }): Promise<void>;

  /** At most `max` links between two moments, newest first, from a position on. Anchors only by their `kind`. */
  newest(query: LinkQuery): Promise<AuditLink[]>;

  /** All links, including anchors, by arrival. Within a chain, this is the order of the chain. */
  all(): AsyncIterable<AuditLink>;

  /** The records of retention, newest first. */
  retentions(): Promise<Retention[]>;

  /** The ends of all chains. */
  heads(): Promise<readonly ChainHead[]>;

  /** The end of the anchors; undefined if there is none yet. */
  head(): Promise<AuditHead | undefined>;

  /**
   * Adds an anchor with the heads of all chains that have grown since the last one, in order of arrival. Adds none if
   * no chain has grown, or if any process has added one in this minute and `now` is not set. Resolves with the end of
   * the anchors. Rejects as `append` does.
   */
  anchor(options?: { readonly now?: boolean; readonly patient?: boolean }): Promise<AuditHead | undefined>;

  /** Removes some of the links that are older or larger than the limits allow. True if there may be more to remove. */
  retain(keep: AuditRetentionLimits): Promise<boolean>;
}

/** The parts of the audit log that verification reads. */
export type ReadableLinks = Pick<AuditLinks, "newest" | "all" | "retentions" | "heads">;

export interface LinkQuery {
  /** Undefined for the links of all tenants and of the service. */
  readonly tenant?: string | undefined;
  readonly kind?: AuditLink["kind"] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** The position of the first link to return; by default, the newest. */
  readonly from?: { readonly at: number; readonly arrival: number } | undefined;
  readonly max: number;
}

/** A removal goes down to this share of the limit, so that not every new call causes another removal. */
export const RETAINED_SHARE = 0.9;

/** For each limit, 0 means no limit. */
export interface AuditRetentionLimits {
  readonly auditDays: number;
  readonly auditCallDays: number;
  readonly auditBytesPerTenant: number;
  readonly auditCallBytesPerTenant: number;
}

/** A record of retention: what was removed, if anything, and the limits at that time. */
export interface Retention extends Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "tenant"> {
  /** Set if the record is unreadable; nothing else is known then. */
  readonly isDamaged?: true;
  /** Missing in a damaged or forged record. */
  readonly limits?: AuditRetentionLimits;
  /** Only for the service: all links of the chain up to this one were removed. */
  readonly cut?: ChainHead & { readonly last: RemovedLink | undefined };
  /** Bodies of the tenant up to this number were removed, either those of calls or all others. */
  readonly bodies?: { readonly through: number; readonly isCall: boolean };
}

/** The last removed link in full. Its hash, on which the next link builds, proves its time. */
export interface RemovedLink extends Omit<AuditLink, "chain" | "number" | "arrival" | "hash" | "body"> {
  /** The hash of the previous link. */
  readonly previous: Uint8Array;
}

/** The entry for a single record of an event that happens now. */
export function auditEntry(tenant: string, kind: AuditKind, facts: JsonObject): AuditEntry {
  return { tenant, kind, body: JSON.stringify(facts), records: 1 };
}

/** Splits the text of a history, such as `page, token:1a2b`, into the path of the change and the principal, if any. */
export function parseActor(by: string): { by: string; principal?: string } {
  const comma = by.indexOf(", ");
  return comma < 0 ? { by } : { by: by.slice(0, comma), principal: by.slice(comma + 2) };
}

/** A change as passed to the store's `change`, with CIDs in place of contents. */
interface Changed {
  readonly by: string;
  readonly subject?: {
    readonly kind: string;
    readonly name: string;
    readonly breaking?: boolean;
    readonly autoApproved?: readonly { readonly subject: string; readonly name: string }[];
  };
}

interface MovedName {
  readonly kind: string;
  readonly name: string;
  /** Null for a name that is added or removed. */
  readonly from: string | null;
  readonly cid: string | null;
}

/** The maximum number of auto-approved items that are recorded by name; the others are only counted. */
const AUTO_APPROVED_MAX = 50;

function autoApprovedFacts(approved: readonly { readonly subject: string; readonly name: string }[]): JsonObject {
  const items = approved
    .slice(0, AUTO_APPROVED_MAX)
    .map(({ subject, name }) => ({ subject, name: name.slice(0, AUTO_APPROVED_NAME_UNITS_MAX) }));
  return { items, ...(approved.length > AUTO_APPROVED_MAX && { more: approved.length - AUTO_APPROVED_MAX }) };
}

/** Upstreams choose names of any length. */
const AUTO_APPROVED_NAME_UNITS_MAX = 200;

/** The record of one transaction that moved names, caused by a person, the boot image, or the loading of a server. */
export function changeEntry(tenant: string, { by, subject }: Changed, moved: readonly MovedName[]): AuditEntry {
  const names = moved.map(({ kind, name, from, cid }) => ({ kind, name, from, to: cid }));
  const subjectFacts = subject && {
    subject: { kind: subject.kind, name: subject.name },
    ...(subject.breaking && { breaking: true }),
    ...(subject.autoApproved?.length && { autoApproved: autoApprovedFacts(subject.autoApproved) }),
  };
  const kind = subject?.kind === "contract" ? "approval" : "edit";
  return auditEntry(tenant, kind, { ...parseActor(by), ...subjectFacts, names });
}
