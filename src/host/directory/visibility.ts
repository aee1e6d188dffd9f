import { decodeRecord, jsonBlock, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import type { SharedLimits } from "../../lib/shared-limits.ts";
import { TokenBuckets, type BucketRate } from "../../lib/token-buckets.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import type { Catalog } from "../offers/catalog.ts";

/** Names of tools and prompts that a server's own functions have hidden; undefined when the record is damaged. */
export type Hidden = readonly string[] | undefined;

type VisibilityStore = Pick<Store, "content" | "name" | "names">;

/** The hidden names of each server that ever hid anything: state of the server, kept by its name. */
export async function readVisibility(store: VisibilityStore, tenant: string): Promise<Map<string, Hidden>> {
  const hidden = new Map<string, Hidden>();
  for (const { name, cid } of await store.names(tenant, "visibility"))
    hidden.set(name, await namesIn(store, tenant, cid));
  return hidden;
}

/** The hidden names of one server. */
export async function hiddenOf(store: VisibilityStore, tenant: string, server: string): Promise<Hidden> {
  const record = await store.name(tenant, "visibility", server);
  return record ? namesIn(store, tenant, record.cid) : [];
}

/** Hides a name or shows it again; returns the names hidden then. What another process hides meanwhile stays hidden. */
async function changeVisibility(
  store: Store,
  { tenant, server, name, visible }: { tenant: string; server: string; name: string; visible: boolean },
  storedBytesMax: number | undefined,
): Promise<readonly string[]> {
  for (let attempt = 1; ; attempt++) {
    const record = await store.name(tenant, "visibility", server);
    const before = record ? await namesIn(store, tenant, record.cid) : [];
    if (!before) throw new BerthError("content_corrupt", `the list of what "${server}" hides cannot be read`);
    if (before.includes(name) !== visible) return before;
    const after = visible ? before.filter((each) => each !== name) : [...before, name].sort();
    const block = after.length > 0 ? jsonBlock({ hidden: after }) : undefined;
    const move = { kind: "visibility", name: server, cid: block?.cid ?? null, expected: record?.cid ?? null } as const;
    try {
      const room = storedBytesMax === undefined ? {} : { storedBytesMax };
      await store.change(tenant, { by: "server", ...(block && { put: [block] }), set: [move], ...room });
      return after;
    } catch (error) {
      if (!(error instanceof BerthError && error.code === "name_conflict") || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

/** How often the functions of one server may hide and show what it offers, which is also the initial burst. */
const bounds = fixed({ visibilityChangesPerMinute: 60 });

interface SetVisibleDependencies {
  readonly store: Store;
  readonly writable: boolean;
  readonly storedBytesOf?: ((tenant: string) => number) | undefined;
  readonly sharedLimits?: SharedLimits;
  readonly server: (tenant: string, name: string) => Catalog | Promise<Catalog>;
  /** Hears of the names that are hidden from now on. */
  readonly onChange: (tenant: string, server: string, hidden: readonly string[]) => Promise<void>;
}

/**
 * Makes the function that hides or shows a tool or prompt of a server. It rejects when the server has none of that
 * name, and with `read_only` and `too_many_requests`. Changes of one server run one after the other, so that each sees
 * the one before.
 */
export function createSetVisible({
  store,
  writable,
  storedBytesOf,
  sharedLimits,
  server: serverOf,
  onChange,
}: SetVisibleDependencies) {
  const changing = new Map<string, Promise<unknown>>();
  const { visibilityChangesPerMinute: perMinute } = bounds;
  const rateOf = (): BucketRate => ({ perMinute, burst: perMinute });
  const buckets = new TokenBuckets(rateOf, { by: sharedLimits, name: "visibility" });

  return (tenant: string, server: string, name: string, visible: boolean): Promise<void> => {
    const key = JSON.stringify([tenant, server]);
    const change = (changing.get(key) ?? Promise.resolve())
      .catch(() => {})
      .then(() => setVisible(tenant, server, name, visible));
    changing.set(key, change);
    return change.finally(() => {
      if (changing.get(key) === change) changing.delete(key);
    });
  };

  async function setVisible(tenant: string, server: string, name: string, visible: boolean): Promise<void> {
    const { contract, hidden } = await serverOf(tenant, server);
    const offers = [...contract.tools, ...contract.prompts, ...hidden];
    if (!offers.some((offer) => offer.name === name)) throw new TypeError(`there is no tool or prompt "${name}"`);
    if (hidden.some((offer) => offer.name === name) !== visible) return;
    if (!writable) throw new BerthError("read_only");
    buckets.check(
      JSON.stringify([tenant, server]),
      () => `the server "${server}" may hide and show what it offers ${perMinute} times a minute`,
    );
    const storedBytesMax = visible ? undefined : storedBytesOf?.(tenant);
    await onChange(tenant, server, await changeVisibility(store, { tenant, server, name, visible }, storedBytesMax));
  }
}

const ATTEMPTS_MAX = 10;

async function namesIn(store: VisibilityStore, tenant: string, cid: Cid): Promise<Hidden> {
  const bytes = await unlessDamaged(store.content(tenant, cid));
  const value = bytes && decodeRecord(bytes);
  const hidden = isObject(value) ? value["hidden"] : undefined;
  return Array.isArray(hidden) ? hidden.filter((name) => typeof name === "string") : undefined;
}
