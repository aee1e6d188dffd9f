import { hash } from "node:crypto";
import { canonicalJson } from "../lib/canonical-json.ts";
import { tryParseObject } from "../lib/json.ts";
import type { AuditEntry, AuditHead, AuditLink, ChainHead } from "./audit-entry.ts";

/** The head of an empty chain. */
export const GENESIS: AuditHead = { number: 0, hash: new Uint8Array(32) };

/** The minimum interval between anchors, except for requested ones. */
export const ANCHOR_MS = 60_000;
/** The maximum delay between an event and its record. */
export const WRITTEN_LATE_MS = 3_600_000;

/** The part of a link that its hash covers. */
type Linked = Pick<AuditLink, "number" | "at" | "since" | "tenant" | "kind" | "records" | "bytes" | "digest">;

/** Builds the link of an entry that follows `previous` and is written at `at` (milliseconds since the epoch). */
export function linkAfter(
  previous: AuditHead,
  at: number,
  entry: Omit<AuditEntry, "kind"> & Pick<AuditLink, "kind">,
): Linked & AuditHead {
  const { tenant, kind, body, records, since } = entry;
  const link = {
    number: previous.number + 1,
    at,
    since: since ?? at,
    tenant,
    kind,
    records,
    bytes: Buffer.byteLength(body),
    digest: hash("sha256", body, "buffer"),
  };
  return { ...link, hash: linkHash(previous.hash, link) };
}

/**
 * SHA-256 of two lines: the previous link's hash in hexadecimal, and the canonical JSON of the link, with the digest in
 * place of the body. The chain can therefore be verified after bodies are removed, and by any tool that computes
 * SHA-256 (docs/audit.md).
 */
export function linkHash(previous: Uint8Array, link: Linked): Uint8Array {
  const { number, at, since, tenant, kind, records, bytes, digest } = link;
  const line = canonicalJson({ number, at, since, tenant, kind, records, bytes, digest: toHex(digest) });
  return hash("sha256", `${toHex(previous)}\n${line}`, "buffer");
}

/** The body of an anchor. */
export function anchorBody(heads: readonly (AuditHead & { readonly tenant: string })[]): string {
  return JSON.stringify({ heads: heads.map(({ tenant, number, hash }) => [tenant, number, toHex(hash)]) });
}

/** Undefined if the body is not that of an anchor. */
export function parseAnchor(body: string | null): readonly (ChainHead & { readonly chain: string })[] | undefined {
  const { heads } = tryParseObject(body ?? "") ?? {};
  if (!Array.isArray(heads)) return undefined;
  const parsed = heads.map((head) => {
    const [chain, number, hex] = Array.isArray(head) ? head : [];
    if (typeof chain !== "string" || typeof number !== "number" || typeof hex !== "string") return undefined;
    return { chain, number, hash: Buffer.from(hex, "hex") };
  });
  return parsed.every((head) => head !== undefined) ? parsed : undefined;
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** A head as text: `1234:9f86d0…`. */
export function formatHead({ number, hash }: AuditHead): string {
  return `${number}:${toHex(hash)}`;
}

const HEAD_TEXT = /^([1-9]\d{0,14}):([0-9a-f]{64})$/;

/** Undefined if the text is not a head. */
export function parseHead(text: string): AuditHead | undefined {
  const [, number, hex] = HEAD_TEXT.exec(text.trim()) ?? [];
  return hex === undefined ? undefined : { number: Number(number), hash: Buffer.from(hex, "hex") };
}
