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
  isUpstream?: boolean,
) => Promise<void>;

/** True if the server in the store is still the one that was loaded. */
export type IsCurrent = () => Promise<boolean>;

interface ReleaseRecord {
  readonly server: string;
  readonly release: Cid;
  readonly blocks: readonly Block[];
  readonly isUpstream?: boolean | undefined;
  /** If set, the write fails unless this is the current release. */
  readonly expected?: Cid | null;
}

interface PendingRecord extends ReleaseRecord {
  readonly tenant: string;
  /** The current release when this one was created: later saves must not be undone. */
  readonly expected: Cid | null;
}

/** Releases per transaction, which takes a few milliseconds. */
const BATCH_SIZE = 16;
const RETRY_DELAY_MS = 1_000;

/**
 * Records releases of servers. While the store is unavailable, releases are served and recorded later. A release that is
 * unrecorded when the process exits is recorded when its server is loaded again.
 */
export class ReleaseRecorder {
  readonly #dependencies: RecorderDependencies;
  readonly #onDropped: (tenant: string, server: string) => void;
  readonly #pending = new Map<string, PendingRecord>();
  #writing: Promise<void> | undefined;
  /** Retry timer while the store fails. */
  #retryTimer: NodeJS.Timeout | undefined;
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
  record(isCurrent: IsCurrent): RecordRelease {
    return async (tenant, server, release, blocks, isUpstream) => {
      const expected = await this.#findPredecessor(tenant, server, release, isCurrent);
      if (expected === undefined) return;
      const one = { tenant, server, release, blocks, isUpstream, expected };
      try {
        await put(this.#dependencies, tenant, [one]);
      } catch (error) {
        if (isConflict(error)) return;
        if (!isStoreError(error)) throw error;
        this.#enqueue(one);
        this.#scheduleRetry(error);
      }
    };
  }

  /** Records in the background, for callers that load many servers. */
  recordLater(isCurrent: IsCurrent): RecordRelease {
    return async (tenant, server, release, blocks, isUpstream) => {
      const expected = await this.#findPredecessor(tenant, server, release, isCurrent);
      if (expected === undefined) return;
      this.#enqueue({ tenant, server, release, blocks, isUpstream, expected });
      if (!this.#retryTimer) this.#writing ??= this.#write();
    };
  }

  /** The current release that the new one replaces, null if none; undefined if there is nothing to record. */
  async #findPredecessor(
    tenant: string,
    server: string,
    release: Cid,
    isCurrent: IsCurrent,
  ): Promise<Cid | null | undefined> {
    const current = (await this.#dependencies.store.name(tenant, "release", server))?.cid ?? null;
    // Read the name first: a save after this read makes the write fail.
    return current !== release && (await isCurrent()) ? current : undefined;
  }

  /** Resolves when pending records of a server are written; undefined if there are none. */
  whenWritten(tenant: string, server: string): Promise<void> | undefined {
    return this.#pending.has(recordKey(tenant, server)) ? this.#writing : undefined;
  }

  #enqueue(one: PendingRecord): void {
    this.#pending.set(recordKey(one.tenant, one.server), one);
    if (!this.#isFailing || this.#pending.size <= cacheBounds.catalogs) return;
    const [[key, { tenant, server }]] = this.#pending as unknown as [[string, PendingRecord]];
    this.#pending.delete(key);
    this.#onDropped(tenant, server);
  }

  async #write(): Promise<void> {
    try {
      while (this.#pending.size > 0) {
        await yieldToCalls();
        await this.#writeBatch();
      }
      if (this.#isFailing) this.#dependencies.log.info("the pending releases are recorded");
      this.#isFailing = false;
    } catch (error) {
      this.#scheduleRetry(error);
    } finally {
      this.#writing = undefined;
    }
  }

  #scheduleRetry(error: unknown): void {
    const { log } = this.#dependencies;
    if (!this.#isFailing)
      log.warn({ err: error }, "releases cannot be recorded; they are served, and recording will be retried");
    this.#isFailing = true;
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      this.#writing ??= this.#write();
    }, RETRY_DELAY_MS).unref();
  }

  async #writeBatch(): Promise<void> {
    const { store, log } = this.#dependencies;
    const batch: PendingRecord[] = [];
    for (const each of this.#pending.values()) {
      if (batch.length === BATCH_SIZE || (batch[0] && batch[0].tenant !== each.tenant)) break;
      batch.push(each);
    }
    const { tenant } = batch[0]!;
    const due: PendingRecord[] = [];
    for (const each of batch) {
      const current = await store.name(tenant, "release", each.server);
      if ((current?.cid ?? null) === each.expected) due.push(each);
    }
    try {
      if (due.length > 0) await put(this.#dependencies, tenant, due);
    } catch (error) {
      if (isStoreError(error)) throw error;
      // Another process changed one of them: check all again.
      if (isConflict(error)) return;
      // They are recorded when their servers are loaded again.
      log.warn({ err: error, tenant }, "releases could not be recorded");
      for (const { server } of batch) this.#onDropped(tenant, server);
    }
    for (const each of batch) {
      const key = recordKey(tenant, each.server);
      // A newer release may be pending.
      if (this.#pending.get(key) === each) this.#pending.delete(key);
    }
  }
}

/** Records a release immediately, for trials of a change; a failure rejects. */
export async function recordRelease(
  dependencies: PutDependencies,
  ...[tenant, server, release, blocks, isUpstream]: Parameters<RecordRelease>
): Promise<void> {
  const current = await dependencies.store.name(tenant, "release", server);
  if (current?.cid !== release) await put(dependencies, tenant, [{ server, release, blocks, isUpstream }]);
}

async function put(dependencies: PutDependencies, tenant: string, some: readonly ReleaseRecord[]): Promise<void> {
  const own = some.filter(({ isUpstream }) => !isUpstream);
  if (own.length > 0) await putAll(dependencies, tenant, own);
  for (const each of some) {
    if (each.isUpstream) await unlessFull(putAll(dependencies, tenant, [each], upstreamQuota(dependencies, tenant)));
  }
}

/** Upstreams may fill half of a tenant's quota; the rest is reserved for edits. */
export function upstreamQuota(
  { storedBytesOf }: Pick<PutDependencies, "storedBytesOf">,
  tenant: string,
): { storedBytesMax?: number } {
  return storedBytesOf ? { storedBytesMax: storedBytesOf(tenant) / 2 } : {};
}

/** Resolves with false when the quota is exhausted: then the release is served without a record. */
export async function unlessFull(change: Promise<unknown>): Promise<boolean> {
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
  some: readonly ReleaseRecord[],
  quota: { storedBytesMax?: number } = {},
): Promise<void> {
  await store.change(tenant, {
    ...quota,
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

function isStoreError(error: unknown): boolean {
  return error instanceof BerthError && (error.code === "store_failed" || error.code === "store_uncertain");
}

function isConflict(error: unknown): boolean {
  return error instanceof BerthError && error.code === "name_conflict";
}

function recordKey(tenant: string, server: string): string {
  return JSON.stringify([tenant, server]);
}

/** Stores which compiler built a release: a later version may compile the same source differently. */
export function releaseCompilerKey(release: Cid): string {
  return `release-compiler:${release}`;
}
