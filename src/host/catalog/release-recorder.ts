import { rawBlock, type Block, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import type { Store } from "../../store/store.ts";
import { cacheBounds } from "./catalog-cache.ts";

interface PutDependencies {
  readonly store: Store;
  /** The identity of the compiler, recorded with each release. */
  readonly compiler: Cid;
  /** The storage quota of a tenant; unlimited by default. */
  readonly storedBytesOf?: (tenant: string) => number;
}

export interface RecorderDependencies extends PutDependencies {
  readonly log: Log;
}

/** Records a release, so that it remains addressable and is listed in the server's history. */
export type RecordRelease = (
  tenant: string,
  server: string,
  release: Cid,
  blocks: readonly Block[],
  /** The release of an upstream, which can change without an edit. */
  isOfOthers?: boolean,
) => Promise<void>;

/** True if the server in the store is still the one that was loaded. */
export type IsOfNow = () => Promise<boolean>;

interface Recorded {
  readonly server: string;
  readonly release: Cid;
  readonly blocks: readonly Block[];
  readonly isOfOthers?: boolean | undefined;
  /** If set, the write fails unless this is the current release. */
  readonly expected?: Cid | null;
}

interface Waiting extends Recorded {
  readonly tenant: string;
  /** The current release when this one was created: later saves must not be undone. */
  readonly expected: Cid | null;
}

/** Releases per transaction, which takes a few milliseconds. */
const RECORDS_AT_ONCE = 16;
const AGAIN_MS = 1_000;

/**
 * Records releases of servers. While the store is unavailable, releases are served and recorded later. A release that is
 * unrecorded when the process exits is recorded when its server is loaded again.
 */
export class ReleaseRecorder {
  readonly #dependencies: RecorderDependencies;
  readonly #onDropped: (tenant: string, server: string) => void;
  readonly #waiting = new Map<string, Waiting>();
  #writing: Promise<void> | undefined;
  /** Retry timer while the store fails. */
  #again: NodeJS.Timeout | undefined;
  #isFailing = false;

  /** `onDropped` is called for a server that must be loaded again because its release was not recorded. */
  constructor(dependencies: RecorderDependencies, onDropped: (tenant: string, server: string) => void) {
    this.#dependencies = dependencies;
    this.#onDropped = onDropped;
  }

  /**
   * Resolves when the release is recorded, or queued because the store is unavailable. Does nothing if another process has
   * saved the server meanwhile: it is recorded when it is loaded again.
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

  /** Records in the background, for callers that load many servers. */
  recordLater(isOfNow: IsOfNow): RecordRelease {
    return async (tenant, server, release, blocks, isOfOthers) => {
      const expected = await this.#followedBy(tenant, server, release, isOfNow);
      if (expected === undefined) return;
      this.#wait({ tenant, server, release, blocks, isOfOthers, expected });
      if (!this.#again) this.#writing ??= this.#write();
    };
  }

  /** The current release that the new one replaces, null if none; undefined if there is nothing to record. */
  async #followedBy(tenant: string, server: string, release: Cid, isOfNow: IsOfNow): Promise<Cid | null | undefined> {
    const current = (await this.#dependencies.store.name(tenant, "release", server))?.cid ?? null;
    // Read the name first: a save after this read makes the write fail.
    return current !== release && (await isOfNow()) ? current : undefined;
  }

  /** Resolves when pending records of a server are written; undefined if there are none. */
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
      if (this.#isFailing) this.#dependencies.log.info("the pending releases are recorded");
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
      log.warn({ err: error }, "releases cannot be recorded; they are served, and recording will be retried");
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
      // Another process changed one of them: check all again.
      if (isMoved(error)) return;
      // They are recorded when their servers are loaded again.
      log.warn({ err: error, tenant }, "releases could not be recorded");
      for (const { server } of some) this.#onDropped(tenant, server);
    }
    for (const each of some) {
      const key = keyOf(tenant, each.server);
      // A newer release may be pending.
      if (this.#waiting.get(key) === each) this.#waiting.delete(key);
    }
  }
}

/** Records a release immediately, for trials of a change; a failure rejects. */
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

/** Upstreams may fill half of a tenant's quota; the rest is reserved for edits. */
export function roomForOthers(
  { storedBytesOf }: Pick<PutDependencies, "storedBytesOf">,
  tenant: string,
): { storedBytesMax?: number } {
  return storedBytesOf ? { storedBytesMax: storedBytesOf(tenant) / 2 } : {};
}

/** Resolves with false when the quota is exhausted: then the release is served without a record. */
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

/** Stores which compiler built a release: a later version may compile the same source differently. */
export function releaseCompilerKey(release: Cid): string {
  return `release-compiler:${release}`;
}
