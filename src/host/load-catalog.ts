import { rawBlock, type Block, type Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import type { HostPort } from "../executor/executor.ts";
import { nextTurn } from "../turns.ts";
import { buildCatalog, type LoadDependencies } from "./build-catalog.ts";
import type { Catalog, Offer } from "./catalog.ts";
import { refused } from "./compiled-definition.ts";
import { readCheckedEntry } from "./config/mcps.ts";
import type { DirectoryEntry } from "./directory.ts";
import type { HostDependencies } from "./host.ts";

type Record = (
  tenant: string,
  server: string,
  release: Cid,
  blocks: readonly Block[],
  dependencies: HostDependencies,
) => Promise<void>;

/** Makes a server ready to serve: definition and entry → what was compiled and configured → release → catalog. */
export async function loadCatalog(
  tenant: string,
  server: string,
  listed: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
  record: Record = recordRelease,
): Promise<Catalog> {
  if (listed.refused) throw refused(server, listed.problems);
  const { definition, hidden } = listed;
  // The directory has read it without its schemas, because most servers of many are not asked for.
  const { entry, problems } = await readCheckedEntry(server, listed.entry.raw, (schema) =>
    dependencies.checks.faultOf(tenant, schema),
  );
  const hiddenNames = new Set(hidden);
  const isHidden = ({ name }: Offer): boolean => hiddenNames.has(name);
  const made = { definition, entry, isHidden };
  const { catalog, blocks } = await buildCatalog(tenant, server, made, port, dependencies).catch((error: unknown) => {
    throw damaged(server, error);
  });
  if (dependencies.writable) await record(tenant, server, catalog.release, blocks, dependencies);
  return problems.length > 0 ? { ...catalog, problems: [...problems, ...catalog.problems] } : catalog;
}

/** What is stored of a server cannot be read: it alone is refused, with what to do. */
function damaged(server: string, error: unknown): unknown {
  if (!(error instanceof BerthError)) return error;
  if (error.code !== "content_corrupt" && error.code !== "content_missing") return error;
  const message = `What is stored of it is damaged (${error.message}): save its definition again, or restore a backup`;
  return refused(server, [{ code: "stored-damaged", message, severity: "error" }]);
}

/** Keeps the release addressable, and its name's history the list of the server's versions. */
async function recordRelease(
  tenant: string,
  server: string,
  release: Cid,
  blocks: readonly Block[],
  { store, compiler }: HostDependencies,
): Promise<void> {
  const current = await store.name(tenant, "release", server);
  if (current?.cid === release) return;
  const set = [{ kind: "release", name: server, cid: release }] as const;
  await store.putDerived(tenant, [{ key: releaseCompilerKey(release), block: rawBlock(compiler) }]);
  await store.change(tenant, { by: "load", put: blocks, set });
}

interface Waiting {
  readonly tenant: string;
  readonly server: string;
  readonly release: Cid;
  readonly blocks: readonly Block[];
}

/** So many are written in one transaction, which takes some milliseconds. */
const RECORDS_AT_ONCE = 16;

/**
 * Records the releases of servers that are looked at one after the other, because there are very many: nobody waits for
 * the disk at each. What is not written when the process ends is written when the server is loaded again.
 */
export class ReleaseRecorder {
  readonly #dependencies: HostDependencies;
  readonly #waiting = new Map<string, Waiting>();
  #writing: Promise<void> | undefined;

  constructor(dependencies: HostDependencies) {
    this.#dependencies = dependencies;
  }

  readonly record: Record = async (tenant, server, release, blocks) => {
    const current = await this.#dependencies.store.name(tenant, "release", server);
    if (current?.cid === release) return;
    this.#waiting.set(keyOf(tenant, server), { tenant, server, release, blocks });
    this.#writing ??= this.#write();
  };

  /** Resolves when nothing of a server waits to be recorded; undefined when nothing does. */
  settled(tenant: string, server: string): Promise<void> | undefined {
    return this.#waiting.has(keyOf(tenant, server)) ? this.#writing : undefined;
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.size > 0) {
        await nextTurn();
        await this.#writeSome();
      }
    } catch (error) {
      this.#waiting.clear();
      this.#dependencies.log.warn({ err: error }, "releases of servers that were listed could not be recorded");
    } finally {
      this.#writing = undefined;
    }
  }

  async #writeSome(): Promise<void> {
    const { store, compiler } = this.#dependencies;
    const some: Waiting[] = [];
    for (const each of this.#waiting.values()) {
      if (some.length === RECORDS_AT_ONCE || (some[0] && some[0].tenant !== each.tenant)) break;
      some.push(each);
    }
    const { tenant } = some[0]!;
    const compilers = some.map(({ release }) => ({ key: releaseCompilerKey(release), block: rawBlock(compiler) }));
    await store.putDerived(tenant, compilers);
    await store.change(tenant, {
      by: "load",
      put: some.flatMap(({ blocks }) => blocks),
      set: some.map(({ server, release }) => ({ kind: "release", name: server, cid: release })),
    });
    for (const each of some) {
      const key = keyOf(tenant, each.server);
      // It may be another release by now.
      if (this.#waiting.get(key) === each) this.#waiting.delete(key);
    }
  }
}

function keyOf(tenant: string, server: string): string {
  return JSON.stringify([tenant, server]);
}

/** Where it stands which compiler made the code of a release: a later one may make something else of the same source. */
export function releaseCompilerKey(release: Cid): string {
  return `release-compiler:${release}`;
}
