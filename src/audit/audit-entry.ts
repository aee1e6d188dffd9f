import type { JsonObject } from "../lib/json.ts";

/**
 * The words of the audit log. This folder owns which facts are recorded, how they are written, chained and verified,
 * and the calls that wait to be recorded. It knows no HTTP, no MCP and no SQL: a store keeps the links (`AuditLinks`),
 * and writes those of a change in the transaction of the change.
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

/** The tenant of the service's own records. */
export const SERVICE = "";

/** The chain of a link: the tenant's, or that of the `SERVICE`. Null for the chain of anchors. */
export type Chain = string | null;

/** An event to record, not yet in a chain. Never holds a secret, a token or any content. */
export interface AuditEntry {
  readonly tenant: string;
  readonly kind: AuditKind;
  /** JSON, as UTF-8: for calls a block of many (`call-block.ts`), else the facts of one record. */
  readonly body: string | Uint8Array;
  /** The number of records in the body. */
  readonly records: number;
  /** The time of the earliest one, in milliseconds since the epoch; undefined for now. */
  readonly since?: number;
}

/** An entry with its place in a chain. */
export interface AuditLink {
  readonly chain: Chain;
  /** Its place in the chain: from 1, without gaps. */
  readonly number: number;
  /** Grows from one link to the next that a store takes, of whatever chain. No hash covers it. */
  readonly arrival: number;
  /** Milliseconds since the epoch: when it was written, and when its earliest record happened. */
  readonly at: number;
  readonly since: number;
  readonly tenant: string;
  readonly kind: AuditKind | "anchor";
  readonly records: number;
  /** The size of the body, as UTF-8. */
  readonly bytes: number;
  /** SHA-256 of the body; it stays when the body is removed. */
  readonly digest: Uint8Array;
  /** SHA-256 over the hash of the link before it in the chain, and this link. */
  readonly hash: Uint8Array;
  /** Null once retention has removed it. */
  readonly body: string | null;
}

/** The end of a chain at some moment. One of the anchors, kept elsewhere, proves all that they hold. */
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
   * Appends all entries or none. They survive the end of this process at once, and a power cut soon after. Rejects with
   * `store_failed`; a store that one process writes at a time does so at once if another is writing, unless it is
   * `patient`. Where it rejects with `store_uncertain`, the same entries may be appended again: they are there once.
   */
  append(entries: readonly AuditEntry[], options?: { readonly patient?: boolean }): Promise<void>;

  /** At most `max` links between two moments, newest first, from a place on. Anchors only where they are asked for. */
  newest(query: LinkQuery): Promise<AuditLink[]>;

  /** All links, anchors included, as they arrived; so those of one chain in its order. */
  all(): AsyncIterable<AuditLink>;

  /** The log's own records of removals, newest first. */
  retentions(): Promise<Retention[]>;

  /** The ends of all chains. */
  heads(): Promise<readonly ChainHead[]>;

  /** The end of the anchors; undefined where there is none yet. */
  head(): Promise<AuditHead | undefined>;

  /**
   * Adds an anchor, which holds the heads of exactly those chains that have grown since the one before, in order of
   * arrival. None where nothing has grown; nor, unless it is to be `now`, in a minute that has one from whatever process.
   * Resolves with the end of the anchors. Rejects as `append`.
   */
  anchor(options?: { readonly now?: boolean; readonly patient?: boolean }): Promise<AuditHead | undefined>;

  /** Removes some links that are older or more than `keep` allows; true if there may be more to remove. */
  retain(keep: Keep): Promise<boolean>;
}

/** The audit log, as far as it is read to verify it. */
export type ReadableLinks = Pick<AuditLinks, "newest" | "all" | "retentions" | "heads">;

export interface LinkQuery {
  /** Undefined for the links of all tenants and of the service. */
  readonly tenant?: string | undefined;
  readonly kind?: AuditLink["kind"] | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** The place of the first link to return; the newest by default. */
  readonly from?: { readonly at: number; readonly arrival: number } | undefined;
  readonly max: number;
}

/** A removal goes down to this share of the limit, so that not every new call leads to a record of retention. */
export const KEPT_SHARE = 0.9;

/** 0 means no limit, for each of them. */
export interface Keep {
  readonly auditDays: number;
  readonly auditCallDays: number;
  readonly auditBytesPerTenant: number;
  readonly auditCallBytesPerTenant: number;
}

/** A record of retention: what it removed, if anything, and the limits in force at the time. */
export interface Retention extends Pick<AuditLink, "chain" | "number" | "arrival" | "at" | "tenant"> {
  /** Set when it cannot be read; nothing else is known of it then. */
  readonly isDamaged?: true;
  /** Missing in a damaged or forged record. */
  readonly limits?: Keep;
  /** Only for the service: all links of the chain up to this one are gone. */
  readonly cut?: ChainHead & { readonly last: RemovedLink | undefined };
  /** Bodies of the tenant up to this number are gone, either of its calls or of everything else. */
  readonly bodies?: { readonly through: number; readonly isCall: boolean };
}

/** The last removed link, whole: its hash, which the next link builds on, proves its time. */
export interface RemovedLink extends Omit<AuditLink, "chain" | "number" | "arrival" | "hash" | "body"> {
  /** The hash of the previous link. */
  readonly previous: Uint8Array;
}

/** The entry of one record that happens now. */
export function entryOf(tenant: string, kind: AuditKind, facts: JsonObject): AuditEntry {
  return { tenant, kind, body: JSON.stringify(facts), records: 1 };
}

/** Splits `page, token:1a2b`, as histories have it, into the way and the principal, if any. */
export function actorOf(by: string): { by: string; principal?: string } {
  const at = by.indexOf(", ");
  return at < 0 ? { by } : { by: by.slice(0, at), principal: by.slice(at + 2) };
}

/** A change as a store's `change` knows it: contents by their CIDs alone. */
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
  /** Null for a name that is new or removed. */
  readonly from: string | null;
  readonly cid: string | null;
}

/** The most items that were taken over together and are recorded by name; the others are counted. */
const TAKEN_MAX = 50;

function takenFacts(all: readonly { readonly subject: string; readonly name: string }[]): JsonObject {
  const items = all
    .slice(0, TAKEN_MAX)
    .map(({ subject, name }) => ({ subject, name: name.slice(0, TAKEN_NAME_UNITS_MAX) }));
  return { items, ...(all.length > TAKEN_MAX && { more: all.length - TAKEN_MAX }) };
}

/** Names are an upstream's own, of whatever length. */
const TAKEN_NAME_UNITS_MAX = 200;

/** The record of one transaction that moved names: by a person, by the boot image, or by the loading of a server. */
export function auditOfChange(tenant: string, { by, subject }: Changed, moved: readonly MovedName[]): AuditEntry {
  const names = moved.map(({ kind, name, from, cid }) => ({ kind, name, from, to: cid }));
  const about = subject && {
    subject: { kind: subject.kind, name: subject.name },
    ...(subject.breaking && { breaking: true }),
    ...(subject.autoApproved?.length && { autoApproved: takenFacts(subject.autoApproved) }),
  };
  const kind = subject?.kind === "contract" ? "approval" : "edit";
  return entryOf(tenant, kind, { ...actorOf(by), ...about, names });
}
