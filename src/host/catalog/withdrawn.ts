import { decodeRecord, jsonBlock, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";

/** Withdrawn releases keep their content, but are neither served nor restored until they are reinstated. */
export interface WithdrawnReleases {
  /** The CID of their record. */
  readonly cid: Cid;
  readonly releases: ReadonlySet<Cid>;
  /** Set when the record is damaged: all earlier releases count as withdrawn. */
  readonly problem?: Problem;
}

/** Reads the withdrawn releases of all servers. Valid records in `known` are reused. */
export async function readWithdrawn(
  store: Store,
  tenant: string,
  known: ReadonlyMap<string, WithdrawnReleases> = new Map(),
): Promise<ReadonlyMap<string, WithdrawnReleases>> {
  const withdrawn = new Map<string, WithdrawnReleases>();
  const yieldIfDue = createYielder();
  for (const { name, cid } of await store.names(tenant, "withdrawn")) {
    await yieldIfDue();
    const before = known.get(name);
    const isUnchanged = before?.cid === cid && !before.problem;
    withdrawn.set(name, isUnchanged ? before : await readRecord(store, tenant, name, cid));
  }
  return withdrawn;
}

/** The withdrawn releases of one server. */
export async function readWithdrawnReleases(
  store: Store,
  tenant: string,
  server: string,
): Promise<WithdrawnReleases | undefined> {
  const record = await store.name(tenant, "withdrawn", server);
  return record && readRecord(store, tenant, server, record.cid);
}

async function readRecord(store: Store, tenant: string, server: string, cid: Cid): Promise<WithdrawnReleases> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  const value = bytes && decodeRecord(bytes);
  const releases = isObject(value) ? value["withdrawn"] : undefined;
  if (Array.isArray(releases)) return { cid, releases: new Set(releases.filter((each) => typeof each === "string")) };
  const [current, ...earlier] = (await store.history(tenant, "release", server)).map((version) => version.cid);
  const what = `The stored list of withdrawn releases of "${server}" is damaged (${cid})`;
  return {
    cid,
    releases: new Set(earlier.flatMap((each) => (each === null || each === current ? [] : each))),
    problem: {
      code: "stored-damaged",
      message: `${what}: all earlier releases count as withdrawn; reinstate or withdraw one of them, or restore a backup`,
      severity: "error",
    },
  };
}

/** Throws `release_withdrawn`, or `store_failed` if the record is damaged. */
export function refuseWithdrawn(server: string, release: Cid, withdrawn: WithdrawnReleases | undefined): void {
  if (!withdrawn?.releases.has(release)) return;
  if (withdrawn.problem) throw new BerthError("store_failed", withdrawn.problem.message);
  throw new BerthError("release_withdrawn", `${release} of "${server}"; use another release, such as the current one`);
}

interface Withdrawal {
  readonly server: string;
  readonly release: Cid;
  readonly isWithdrawn: boolean;
  readonly by: string;
  /** The tenant's storage quota. A reinstatement may exceed it. */
  readonly storedBytesMax?: number | undefined;
}

/**
 * Withdraws or reinstates an earlier release. Rejects with `not_found`, `edit_refused` for the current release,
 * `name_conflict` and `storage_full`.
 */
export async function withdraw(
  store: Store,
  tenant: string,
  { server, release, isWithdrawn, by, storedBytesMax }: Withdrawal,
): Promise<void> {
  if (!(await store.had(tenant, "release", server, release))) {
    throw new BerthError("not_found", `"${server}" has no release ${release}`);
  }
  if (isWithdrawn && (await store.name(tenant, "release", server))?.cid === release) {
    throw new BerthError(
      "edit_refused",
      `${release} is the current release of "${server}"; save or restore another one first`,
    );
  }
  const before = await readWithdrawnReleases(store, tenant, server);
  if ((before?.releases.has(release) ?? false) === isWithdrawn && !before?.problem) return;
  const after = new Set(before?.releases);
  if (isWithdrawn) after.add(release);
  else after.delete(release);
  const block = after.size > 0 ? jsonBlock({ withdrawn: [...after].sort() }) : undefined;
  const move = { kind: "withdrawn", name: server, cid: block?.cid ?? null, expected: before?.cid ?? null } as const;
  const subject = { kind: "withdrawal", name: server } as const;
  const quota = isWithdrawn && storedBytesMax !== undefined ? { storedBytesMax } : {};
  await store.change(tenant, { by, subject, ...(block && { put: [block] }), set: [move], ...quota });
}
