import { matches, matchesInTurns, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { turnTaker } from "../lib/event-loop.ts";
import { soundObject } from "../lib/json.ts";
import type { ChangedName, FullCode, StoredUse, Tenant, TokenRecord } from "./store.ts";

/** The rules of every store, whatever keeps its rows. */

/** The bytes, if they match their CID. Throws `content_corrupt`. */
export function verified(cid: Cid, bytes: Uint8Array): Uint8Array {
  return sound(cid, bytes, matches(cid, bytes));
}

/** As `verified`, for bytes that may be long: calls of others get their turns meanwhile. Throws or rejects. */
export function verifiedInTurns(cid: Cid, bytes: Uint8Array): Uint8Array | Promise<Uint8Array> {
  const matching = matchesInTurns(cid, bytes);
  return matching instanceof Promise
    ? matching.then((isSound) => sound(cid, bytes, isSound))
    : sound(cid, bytes, matching);
}

/** Those that match their CIDs. */
export async function soundOnes(found: ReadonlyMap<Cid, Uint8Array>): Promise<Map<Cid, Uint8Array>> {
  const sound = new Map<Cid, Uint8Array>();
  const takeTurns = turnTaker();
  for (const [cid, bytes] of found) {
    await takeTurns();
    if (await matchesInTurns(cid, bytes)) sound.set(cid, bytes);
  }
  return sound;
}

/** The bytes, if `isSound`. Throws `content_corrupt`. */
export function sound(cid: Cid, bytes: Uint8Array, isSound: boolean): Uint8Array {
  if (isSound) return bytes;
  throw new BerthError("content_corrupt", `${cid}; save it again, or restore a backup`, { data: { cid } });
}

/** True for a tarball, as far as its first bytes tell: it is compressed, so that no CID stands in it. */
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

/** Databases sort by UTF-8 bytes, which differs from code units beyond the basic plane. */
export function byName(a: { name: string }, b: { name: string }): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

/** A changed name, or by itself a changed tenant, or a token by its id. */
export type ForeignChange = Omit<ChangedName, "kind"> & { readonly kind: ChangedName["kind"] | "tenant" | "token" };

/** The bytes that one change of a name counts for: its row and its index entry. */
export const CHANGE_BYTES = 200;

/** A change after which a tenant would store `bytes`; `use` is what it stores now. */
export function full(
  code: FullCode,
  { use, ...sizes }: { readonly bytes: number; readonly storedBytesMax: number; readonly use?: StoredUse },
): BerthError {
  const kinds = Object.entries(use ?? {}).filter(([, bytes]) => bytes > 0);
  const parts = kinds.length > 0 ? ` (${kinds.map((each) => each.join(" ")).join(", ")})` : "";
  const detail = `it would be ${sizes.bytes} bytes, and may be ${sizes.storedBytesMax}, of all that the tenant stores${parts}`;
  return new BerthError(code, `${detail}; ${MAKE_ROOM}`, { data: { ...sizes, ...(use && { use: { ...use } }) } });
}

const MAKE_ROOM =
  'remove packages, servers and state that are not needed, and keep earlier versions for fewer days (the limit "historyDays"); "berth collect" then frees what they took; or have the limit "storedBytes" raised';

/** A tenant as its row has it: objects as JSON. */
export type TenantRow = Omit<Tenant, "limits" | "oauth" | "damaged"> & {
  readonly limits: string;
  readonly oauth: string | null;
};

export function readTenant(row: TenantRow): Tenant {
  const limits = soundObject(row.limits);
  const oauth = row.oauth === null ? null : soundObject(row.oauth);
  return {
    ...row,
    limits: limits ?? {},
    oauth: oauth ?? null,
    ...((!limits || oauth === undefined) && { damaged: limits ? "oauth" : "limits" }),
  };
}

/** A name or address as it stands in a Host header, without the port. */
const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/;

export function checkHost(host: string): void {
  if (HOST.test(host)) return;
  throw new BerthError("tenant_invalid", `"${host.slice(0, 260)}" is not a host name: use lower case and no port`);
}

export function takenHost(host: string, owner: string): BerthError {
  return new BerthError("tenant_invalid", `the host ${host} already stands for "${owner}"`);
}

/** A token as its row has it: the grant as JSON. */
export type TokenRow = Omit<TokenRecord, "grant"> & { readonly grant: string };

export function readToken({ grant, ...row }: TokenRow): TokenRecord {
  const sound = soundObject(grant);
  if (sound && Array.isArray(sound["can"])) return { ...row, grant: sound };
  // A damaged token permits nothing, and can be revoked.
  return { ...row, name: `${row.name} (damaged: revoke it and create another)`, grant: { can: [] } };
}

export function tooManyTokens(tokensMax: number): BerthError {
  const detail = `there are already ${tokensMax}; revoke some of them`;
  return new BerthError("token_invalid", detail);
}

/** Changes that belong to the installation and not to the tenant, or concern a value that no copy has. */
export const CHANGES_OF_PLACE = "('tenant', 'token', 'secret')";
