import { decodeJson, jsonBlock, type Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import { isObject } from "../json.ts";
import type { Store } from "../store/store.ts";

/**
 * Releases that somebody took back: they keep their CIDs and their content, and are neither served nor restored until
 * they are reinstated.
 */
export async function readWithdrawn(store: Store, tenant: string): Promise<ReadonlyMap<string, ReadonlySet<Cid>>> {
  const withdrawn = new Map<string, ReadonlySet<Cid>>();
  for (const { name, cid } of await store.names(tenant, "withdrawn")) {
    withdrawn.set(name, releasesIn(await store.content(tenant, cid)));
  }
  return withdrawn;
}

/** Those of one server. */
export async function withdrawnOf(store: Store, tenant: string, server: string): Promise<ReadonlySet<Cid>> {
  const record = await store.name(tenant, "withdrawn", server);
  return releasesIn(record && (await store.content(tenant, record.cid)));
}

export function releaseWithdrawn(server: string, release: Cid): BerthError {
  return new BerthError("release_withdrawn", `${release} of "${server}"; use another one, such as what is served now`);
}

interface Withdrawal {
  readonly server: string;
  readonly release: Cid;
  readonly isWithdrawn: boolean;
  readonly by: string;
}

/**
 * Withdraws a release that the server has had and is not now, or reinstates it. Rejects with `not_found`, `edit_refused`
 * for what is served now, and `name_moved`.
 */
export async function withdraw(
  store: Store,
  tenant: string,
  { server, release, isWithdrawn, by }: Withdrawal,
): Promise<void> {
  const history = await store.history(tenant, "release", server);
  if (!history.some(({ cid }) => cid === release)) {
    throw new BerthError("not_found", `"${server}" has no release ${release}`);
  }
  if (isWithdrawn && history[0]?.cid === release) {
    throw new BerthError("edit_refused", `${release} is what "${server}" is now; save or restore another one first`);
  }
  const stood = await store.name(tenant, "withdrawn", server);
  const before = releasesIn(stood && (await store.content(tenant, stood.cid)));
  if (before.has(release) === isWithdrawn) return;
  const after = new Set(before);
  if (isWithdrawn) after.add(release);
  else after.delete(release);
  const block = after.size > 0 ? jsonBlock({ withdrawn: [...after].sort() }) : undefined;
  const move = { kind: "withdrawn", name: server, cid: block?.cid ?? null, expected: stood?.cid ?? null } as const;
  const subject = { kind: "withdrawal", name: server } as const;
  await store.change(tenant, { by, subject, ...(block && { put: [block] }), set: [move] });
}

function releasesIn(bytes: Uint8Array | undefined): ReadonlySet<Cid> {
  const value = bytes && decodeJson(bytes);
  const withdrawn = isObject(value) ? value["withdrawn"] : undefined;
  return new Set(Array.isArray(withdrawn) ? withdrawn.filter((cid) => typeof cid === "string") : []);
}
