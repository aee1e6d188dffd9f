import { matches, matchesYielding, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { createYielder } from "../lib/event-loop.ts";
import { tryParseObject } from "../lib/json.ts";
import type { ChangedName, StorageFullCode, StorageUsage, Tenant, TokenRecord } from "./store.ts";

/** Rules that apply to every store, regardless of the database. */

/** Returns the bytes if they match their CID. Throws `content_corrupt`. */
export function verifyBytes(cid: Cid, bytes: Uint8Array): Uint8Array {
  return requireMatch(cid, bytes, matches(cid, bytes));
}

/** The same for bytes that may be long: yields to the event loop in between. Throws or rejects. */
export function verifyLongBytes(cid: Cid, bytes: Uint8Array): Uint8Array | Promise<Uint8Array> {
  const matching = matchesYielding(cid, bytes);
  return matching instanceof Promise
    ? matching.then((isMatch) => requireMatch(cid, bytes, isMatch))
    : requireMatch(cid, bytes, matching);
}

/** Returns the contents that match their CIDs. */
export async function matchingContents(blocks: ReadonlyMap<Cid, Uint8Array>): Promise<Map<Cid, Uint8Array>> {
  const valid = new Map<Cid, Uint8Array>();
  const yieldIfDue = createYielder();
  for (const [cid, bytes] of blocks) {
    await yieldIfDue();
    if (await matchesYielding(cid, bytes)) valid.set(cid, bytes);
  }
  return valid;
}

/** Returns the bytes if `isMatch`. Throws `content_corrupt`. */
export function requireMatch(cid: Cid, bytes: Uint8Array, isMatch: boolean): Uint8Array {
  if (isMatch) return bytes;
  throw new BerthError("content_corrupt", `${cid}; save it again, or restore a backup`, { data: { cid } });
}

/** Recognizes a tarball by its first bytes. It is compressed, so it contains no readable CIDs. */
export function isPackage(bytes: Uint8Array): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

export function contentMissing(kind: string, name: string, cid: Cid): BerthError {
  return new BerthError("content_missing", `${kind} "${name}" cannot be set to ${cid}`, { data: { cid } });
}

export function nameMoved(kind: string, name: string, expected: Cid | null, actual: Cid | null): BerthError {
  const detail = `${kind} "${name}" is ${actual ?? "absent"}, not ${expected ?? "absent"}`;
  return new BerthError("name_conflict", detail, { data: { kind, name, expected, actual } });
}

/** Databases sort by UTF-8 bytes, which differs from UTF-16 code units beyond the basic plane. */
export function byName(a: { name: string }, b: { name: string }): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

/** A changed name, or a changed tenant (as such), or a token by its id. */
export type ForeignChange = Omit<ChangedName, "kind"> & { readonly kind: ChangedName["kind"] | "tenant" | "token" };

/** The counted size of one change of a name: its row and its index entry. */
export const CHANGE_BYTES = 200;

/** The error for a change after which a tenant would store `bytes`; `use` is what it stores now. */
export function storageFull(
  code: StorageFullCode,
  { use, ...sizes }: { readonly bytes: number; readonly storedBytesMax: number; readonly use?: StorageUsage },
): BerthError {
  const kinds = Object.entries(use ?? {}).filter(([, bytes]) => bytes > 0);
  const parts = kinds.length > 0 ? ` (${kinds.map((each) => each.join(" ")).join(", ")})` : "";
  const detail = `the tenant would store ${sizes.bytes} bytes${parts}, more than its limit of ${sizes.storedBytesMax}`;
  return new BerthError(code, `${detail}; ${HOW_TO_FREE_STORAGE}`, {
    data: { ...sizes, ...(use && { use: { ...use } }) },
  });
}

const HOW_TO_FREE_STORAGE =
  'remove unneeded packages, servers and state, and retain earlier versions for fewer days (the limit "historyDays"), then run "berth collect"; or have the limit "storedBytes" raised';

/** A tenant as in its row, with objects as JSON. */
export type TenantRow = Omit<Tenant, "limits" | "oauth" | "damaged"> & {
  readonly limits: string;
  readonly oauth: string | null;
};

export function readTenant(row: TenantRow): Tenant {
  const limits = tryParseObject(row.limits);
  const oauth = row.oauth === null ? null : tryParseObject(row.oauth);
  return {
    ...row,
    limits: limits ?? {},
    oauth: oauth ?? null,
    ...((!limits || oauth === undefined) && { damaged: limits ? "oauth" : "limits" }),
  };
}

/** A name or address as in a Host header, without the port. */
const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/;

export function checkHost(host: string): void {
  if (HOST.test(host)) return;
  throw new BerthError("tenant_invalid", `"${host.slice(0, 260)}" is not a host name: use lower case and no port`);
}

export function hostTaken(host: string, owner: string): BerthError {
  return new BerthError("tenant_invalid", `the host ${host} is already assigned to "${owner}"`);
}

/** A token as in its row, with the grant as JSON. */
export type TokenRow = Omit<TokenRecord, "grant"> & { readonly grant: string };

export function readToken({ grant, ...row }: TokenRow): TokenRecord {
  const grantObject = tryParseObject(grant);
  if (grantObject && Array.isArray(grantObject["can"])) return { ...row, grant: grantObject };
  // A damaged token grants nothing and can be revoked.
  return { ...row, name: `${row.name} (damaged: revoke it and create another)`, grant: { can: [] } };
}

export function tooManyTokens(tokensMax: number): BerthError {
  const detail = `there are already ${tokensMax} tokens; revoke some of them`;
  return new BerthError("token_invalid", detail);
}

/** Changes that belong to the installation rather than the tenant, or concern secrets, which no copy contains. */
export const INSTALLATION_CHANGES = "('tenant', 'token', 'secret')";
