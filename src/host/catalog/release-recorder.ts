import { rawBlock, type Block, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import type { Store } from "../../store/store.ts";
import { cacheBounds } from "./catalog-cache.ts";

/** The parts that writing releases needs. */
interface PutDependencies {
  readonly store: Store;
  /** The identity of the compiler, which a release records. */
  readonly compiler: Cid;
  /** Bytes of content that a tenant may hold; unlimited without it. */
  readonly storedBytesOf?: (tenant: string) => number;
}

export interface RecorderDependencies extends PutDependencies {
  readonly log: Log;
}

/** Records a release, so that it stays addressable and its name's history lists the server's versions. */
export type RecordRelease = (
  tenant: string,
  server: string,
  release: Cid,
  blocks: readonly Block[],
  /** An upstream's release, which may change by itself. */
  isOfOthers?: boolean,
) => Promise<void>;

/** Tells whether the server still is in the store what it was loaded as. */
export type IsOfNow = () => Promise<boolean>;

interface Recorded {
  readonly server: string;
  readonly release: Cid;
  readonly blocks: readonly Block[];
  readonly isOfOthers?: boolean | undefined;
  /** The release that it follows, if it may follow no other. */
  readonly expected?: Cid | null;
}

interface Waiting extends Recorded {
  readonly tenant: string;
  /** The server's last release when this one was made: what was saved since must not be undone. */
  readonly expected: Cid | null;
}

/** Releases written in one transaction, which takes some milliseconds. */
const RECORDS_AT_ONCE = 16;
const AGAIN_MS = 1_000;

/**
 * Records the releases of servers. One that the store cannot take now is served all the same, and recorded later; one
 * that is not written when the process ends is written when its server is loaded again.
 */
export class ReleaseRecorder {
  readonly #dependencies: RecorderDependencies;
  readonly #onDropped: (tenant: string, server: string) => void;
  readonly #waiting = new Map<string, Waiting>();
  #writing: Promise<void> | undefined;
  /** Set while the store fails. */
  #again: NodeJS.Timeout | undefined;
  #isFailing = false;

  /** `onDropped` hears of a server that must be loaded again before it is served: its release was not recorded. */
  constructor(dependencies: RecorderDependencies, onDropped: (tenant: string, server: string) => void) {
    this.#dependencies = dependencies;
    this.#onDropped = onDropped;
  }

  /**
   * Resolves when the release is recorded, or cannot be now. What another process has saved meanwhile stays: a server that
   * was loaded as it was before is recorded when it is loaded again.
   */
  record(isOfNow: IsOfNow): RecordRelease {
    return async (tenant, server, release, blocks, isOfOthers) => {
      const expected = await this.#followedBy(tenant, server, release, isOfNow);
      if (expected === undefined) return;
      const one = { tenant, server, release, blocks, isOfOthers, expected };
      try {
        await put(this.#dependencies, tenant, [one]);
      } catch (error) {
        if (isMoved(error)) return;
        if (!isOfStore(error)) throw error;
        this.#wait(one);
        this.#failed(error);
      }
    };
  }

  /** Records without waiting for the disk, for callers that go through very many servers. */
  recordLater(isOfNow: IsOfNow): RecordRelease {
    return async (tenant, server, release, blocks, isOfOthers) => {
      const expected = await this.#followedBy(tenant, server, release, isOfNow);
      if (expected === undefined) return;
      this.#wait({ tenant, server, release, blocks, isOfOthers, expected });
      if (!this.#again) this.#writing ??= this.#write();
    };
  }

  /** The server's last release, null if it has none; undefined if there is nothing to record. */
  async #followedBy(tenant: string, server: string, release: Cid, isOfNow: IsOfNow): Promise<Cid | null | undefined> {
    const current = (await this.#dependencies.store.name(tenant, "release", server))?.cid ?? null;
    // In this order: a save after the first reading moves the name from what it was.
    return current !== release && (await isOfNow()) ? current : undefined;
  }

  /** Resolves when no record of a server is pending; undefined when none is. */
  settled(tenant: string, server: string): Promise<void> | undefined {
    return this.#waiting.has(keyOf(tenant, server)) ? this.#writing : undefined;
  }

  #wait(one: Waiting): void {
    this.#waiting.set(keyOf(one.tenant, one.server), one);
    if (!this.#isFailing || this.#waiting.size <= cacheBounds.catalogs) return;
    const [[key, { tenant, server }]] = this.#waiting as unknown as [[string, Waiting]];
    this.#waiting.delete(key);
    this.#onDropped(tenant, server);
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.size > 0) {
        await yieldToCalls();
        await this.#writeSome();
      }
      if (this.#isFailing) this.#dependencies.log.info("the releases that waited for the store are recorded");
      this.#isFailing = false;
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#writing = undefined;
    }
  }

  #failed(error: unknown): void {
    const { log } = this.#dependencies;
    if (!this.#isFailing)
      log.warn({ err: error }, "releases cannot be recorded; they are served, and recording is tried again");
    this.#isFailing = true;
    this.#again ??= setTimeout(() => {
      this.#again = undefined;
      this.#writing ??= this.#write();
    }, AGAIN_MS).unref();
  }

  async #writeSome(): Promise<void> {
    const { store, log } = this.#dependencies;
    const some: Waiting[] = [];
    for (const each of this.#waiting.values()) {
      if (some.length === RECORDS_AT_ONCE || (some[0] && some[0].tenant !== each.tenant)) break;
      some.push(each);
    }
    const { tenant } = some[0]!;
    const due: Waiting[] = [];
    for (const each of some) {
      const current = await store.name(tenant, "release", each.server);
      if ((current?.cid ?? null) === each.expected) due.push(each);
    }
    try {
      if (due.length > 0) await put(this.#dependencies, tenant, due);
    } catch (error) {
      if (isOfStore(error)) throw error;
      // All wait on, and are looked at again.
      if (isMoved(error)) return;
      // Nothing is lost: releases are recorded when their servers are loaded again.
      log.warn({ err: error, tenant }, "releases could not be recorded");
      for (const { server } of some) this.#onDropped(tenant, server);
    }
    for (const each of some) {
      const key = keyOf(tenant, each.server);
      // A newer release may wait by now.
      if (this.#waiting.get(key) === each) this.#waiting.delete(key);
    }
  }
}

/** Records as part of a change that is tried, and fails it on failure. */
export async function recordRelease(
  dependencies: PutDependencies,
  ...[tenant, server, release, blocks, isOfOthers]: Parameters<RecordRelease>
): Promise<void> {
  const current = await dependencies.store.name(tenant, "release", server);
  if (current?.cid !== release) await put(dependencies, tenant, [{ server, release, blocks, isOfOthers }]);
}

async function put(dependencies: PutDependencies, tenant: string, some: readonly Recorded[]): Promise<void> {
  const own = some.filter(({ isOfOthers }) => !isOfOthers);
  if (own.length > 0) await putAll(dependencies, tenant, own);
  for (const each of some) {
    if (each.isOfOthers) await ifRoom(putAll(dependencies, tenant, [each], roomForOthers(dependencies, tenant)));
  }
}

/** Limits what upstreams record by themselves: half of a tenant's room is for what people save. */
export function roomForOthers(
  { storedBytesOf }: Pick<PutDependencies, "storedBytesOf">,
  tenant: string,
): { storedBytesMax?: number } {
  return storedBytesOf ? { storedBytesMax: storedBytesOf(tenant) / 2 } : {};
}

/** Resolves with false when there is no room: what cannot be kept is served all the same. */
export async function ifRoom(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (!(error instanceof BerthError && error.code === "storage_full")) throw error;
    return false;
  }
}

async function putAll(
  { store, compiler }: PutDependencies,
  tenant: string,
  some: readonly Recorded[],
  room: { storedBytesMax?: number } = {},
): Promise<void> {
  await store.change(tenant, {
    ...room,
    by: "load",
    put: some.flatMap(({ blocks }) => blocks),
    set: some.map(({ server, release, expected }) => ({
      kind: "release",
      name: server,
      cid: release,
      ...(expected !== undefined && { expected }),
    })),
    derived: some.map(({ release }) => ({
      key: releaseCompilerKey(release),
      block: rawBlock(compiler),
      madeOf: release,
    })),
  });
}

function isOfStore(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "store_failed" || error.code === "store_uncertain");
}

function isMoved(error: unknown): boolean {
  return error instanceof BerthError && error.code === "name_conflict";
}

function keyOf(tenant: string, server: string): string {
  return JSON.stringify([tenant, server]);
}

/** The key that says which compiler made a release's code: a later one may make something else of the same source. */
export function releaseCompilerKey(release: Cid): string {
  return `release-compiler:${release}`;
}
