import { decodeRecord, type Cid } from "../../lib/cid.ts";
import { isObject } from "../../lib/json.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { Store } from "../../store/store.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { withdrawnOf } from "./withdrawn.ts";

/** Changes that are searched: an author who saves again and again makes many. */
const CHANGES_MAX = 1_000;

/** One release in the history of a server. */
export interface ReleaseVersion {
  readonly release: Cid;
  readonly contract: Cid;
  readonly changedAt: number;
  readonly by: string;
  readonly current: boolean;
  /** True for a release that is given to nobody until it is reinstated. */
  readonly withdrawn: boolean;
}

/** The latest releases of a server whose content is there, newest first. */
export async function readReleases(store: Store, tenant: string, server: string): Promise<ReleaseVersion[]> {
  const history = await store.history(tenant, "release", server, CHANGES_MAX);
  const current = history[0]?.cid;
  const withdrawn = await withdrawnOf(store, tenant, server);
  const seen = new Set<Cid>();
  const releases: ReleaseVersion[] = [];
  const takeTurns = turnTaker();
  for (const { cid, changedAt, by } of history) {
    await takeTurns();
    if (cid === null || seen.has(cid)) continue;
    seen.add(cid);
    const bytes = await ifSound(store.content(tenant, cid));
    const parts = bytes && decodeRecord(bytes);
    if (!isObject(parts) || typeof parts["contract"] !== "string") continue;
    releases.push({
      release: cid,
      contract: parts["contract"],
      changedAt,
      by,
      current: cid === current,
      withdrawn: withdrawn?.releases.has(cid) ?? false,
    });
  }
  return releases;
}
