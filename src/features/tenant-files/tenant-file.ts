import { createHash } from "node:crypto";
import type { Cid } from "../../lib/cid.ts";
import type { JsonObject } from "../../lib/json.ts";
import {
  valueKinds,
  type NamedChange,
  type ServerValue,
  type TenantSnapshot,
  type ValueKind,
} from "../../store/store.ts";

/**
 * A tenant as one file: what `berth tenant export` writes and `berth tenant import` reads. It owns the format, and the
 * conditions that a file must meet before any of it is trusted. It must not know how tenants are stored or served.
 *
 * The file is UTF-8, each line a JSON object written in one way only (no spaces, members in the order shown):
 *
 *   {"format":"berth-tenant","version":1,"berth":"0.1.0","tenant":"acme","changedAt":"…Z","limits":{}}
 *   {"content":"<cid>","text":"…"}          every content, sorted by CID; "base64" if it is not text
 *   {"change":"variable","name":"mcps","cid":"<cid>","at":"…Z","by":"page"}
 *                                           the history of every name, sorted by kind and name, each from its beginning;
 *                                           "cid":null removed the name; the last one is its current value
 *   {"secret":"API_KEY"}                    the name of a secret that had a value, sorted
 *   {"state":"notes","key":"…","version":1,"at":"…Z","expires":null,"json":"…"}
 *                                           the values of its servers, sorted by server and key; "base64" for bytes
 *   {"end":{"contents":1,"changes":1,"secrets":1,"state":1},"sha256":"<hex>"}
 *                                           how many lines of each there are, and the digest of all bytes before this line
 *
 * Nothing in a file depends on when it was written: the same tenant gives the same bytes, except that expired
 * keys are omitted.
 */
export const FORMAT = "berth-tenant";
export const FORMAT_VERSION = 1;

export interface TenantFileHeader {
  readonly format: typeof FORMAT;
  readonly version: typeof FORMAT_VERSION;
  /** The version of Berth that wrote it. */
  readonly berth: string;
  readonly tenant: string;
  /** When one of its names was last changed; null if none ever was. */
  readonly changedAt: string | null;
  readonly limits: JsonObject;
}

export interface TenantFileCounts extends Readonly<Record<ValueKind, number>> {
  readonly contents: number;
  readonly changes: number;
  readonly secrets: number;
}

export const kindsOfNames = [
  "image",
  "release",
  "server",
  "upstream",
  "variable",
  "visibility",
  "withdrawn",
] as const satisfies readonly NamedChange["kind"][];

/** Initial counts of values per kind. */
export function noValues(): Record<ValueKind, number> {
  return Object.fromEntries(valueKinds.map((kind) => [kind, 0])) as Record<ValueKind, number>;
}

/** The start of each kind of line. */
export const lineStarts = {
  content: '{"content":"',
  change: '{"change":"',
  secret: '{"secret":"',
  ...(Object.fromEntries(valueKinds.map((kind) => [kind, `{"${kind}":"`])) as Record<ValueKind, string>),
  end: '{"end":{',
};

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function contentLine(cid: Cid, bytes: Uint8Array): string {
  try {
    return JSON.stringify({ content: cid, text: decoder.decode(bytes) });
  } catch {
    return JSON.stringify({ content: cid, base64: Buffer.from(bytes).toString("base64") });
  }
}

export function changeLine({ kind, name, cid, changedAt, by }: NamedChange): string {
  return JSON.stringify({ change: kind, name, cid, at: new Date(changedAt).toISOString(), by });
}

export function valueLine({ kind, server, key, version, changedAt, expiresAt, isJson, value }: ServerValue): string {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const at = new Date(changedAt).toISOString();
  const expires = expiresAt === null ? null : new Date(expiresAt).toISOString();
  const encoded = isJson ? { json: bytes.toString("utf8") } : { base64: bytes.toString("base64") };
  return JSON.stringify({ [kind]: server, key, version, at, expires, ...encoded });
}

/** A summary of a written tenant file. */
export interface Written extends TenantFileCounts {
  /** The bytes of content, as stored. */
  readonly bytes: number;
  readonly secretNames: readonly string[];
}

/**
 * Yields the lines of a tenant's file, with one content at a time in memory, and returns a summary. Throws
 * `content_corrupt`, after which the lines are unusable: they have no end.
 */
export async function* tenantFile(
  snapshot: TenantSnapshot,
  { tenant, berth }: { tenant: string; berth: string },
): AsyncGenerator<string, Written> {
  const digest = createHash("sha256");
  const line = (text: string): string => {
    digest.update(text).update("\n");
    return `${text}\n`;
  };
  const { changedAt, limits } = snapshot;
  const header: TenantFileHeader = {
    format: FORMAT,
    version: FORMAT_VERSION,
    berth,
    tenant,
    changedAt: changedAt === null ? null : new Date(changedAt).toISOString(),
    limits,
  };
  yield line(JSON.stringify(header));

  let [contents, bytes, changes] = [0, 0, 0];
  const values = noValues();
  for await (const block of snapshot.contents()) {
    contents += 1;
    bytes += block.bytes.length;
    yield line(contentLine(block.cid, block.bytes));
  }
  for await (const change of snapshot.changes()) {
    changes += 1;
    yield line(changeLine(change));
  }
  const secretNames = await snapshot.secrets();
  for (const secret of secretNames) yield line(JSON.stringify({ secret }));
  for await (const value of snapshot.values()) {
    values[value.kind] += 1;
    yield line(valueLine(value));
  }

  const counts: TenantFileCounts = { contents, changes, secrets: secretNames.length, ...values };
  yield `${JSON.stringify({ end: counts, sha256: digest.digest("hex") })}\n`;
  return { ...counts, bytes, secretNames };
}
