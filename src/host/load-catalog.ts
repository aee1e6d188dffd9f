import { rawBlock, type Block, type Cid } from "../cid.ts";
import { BerthError } from "../errors.ts";
import type { HostPort } from "../executor/executor.ts";
import { buildCatalog, type LoadDependencies } from "./build-catalog.ts";
import type { Catalog, Offer } from "./catalog.ts";
import { refused } from "./compiled-definition.ts";
import { readCheckedEntry } from "./config/mcps.ts";
import type { DirectoryEntry } from "./directory.ts";
import type { HostDependencies } from "./host.ts";

/** Makes a server ready to serve: definition and entry → what was compiled and configured → release → catalog. */
export async function loadCatalog(
  tenant: string,
  server: string,
  listed: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
): Promise<Catalog> {
  if (listed.refused) throw refused(server, listed.problems);
  const { definition, hidden } = listed;
  // The directory has read it without its schemas, because most servers of many are not asked for.
  const { entry, problems } = await readCheckedEntry(server, listed.entry.raw, (schema) =>
    dependencies.checks.faultOf(tenant, schema),
  );
  const isHidden = ({ name }: Offer): boolean => hidden.includes(name);
  const made = { definition, entry, isHidden };
  const { catalog, blocks } = await buildCatalog(tenant, server, made, port, dependencies).catch((error: unknown) => {
    throw damaged(server, error);
  });
  if (dependencies.writable) await recordRelease(tenant, server, catalog.release, blocks, dependencies);
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

/** Where it stands which compiler made the code of a release: a later one may make something else of the same source. */
export function releaseCompilerKey(release: Cid): string {
  return `release-compiler:${release}`;
}
