import { BerthError } from "../../lib/errors.ts";
import type { HostPort } from "../../executor/executor.ts";
import { buildCatalog, type LoadDependencies } from "./build-catalog.ts";
import type { Catalog, Offer } from "./catalog.ts";
import { refused } from "./compile-once.ts";
import { readCheckedEntry } from "../../entry/mcps.ts";
import type { DirectoryEntry } from "./directory.ts";
import { recordRelease, type RecordRelease } from "./release-recorder.ts";
import { valuesIn } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { lacksDescriptor, noDescriptors } from "../../lib/error-mapping.ts";

/** Makes a server ready to serve: definition and entry → what was compiled and configured → release → catalog. */
export async function loadCatalog(
  tenant: string,
  server: string,
  listed: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
  record: RecordRelease = (...release) => recordRelease(dependencies, ...release),
): Promise<Catalog> {
  if (listed.refused) throw refused(server, listed.problems);
  try {
    return await load(tenant, server, listed, port, dependencies, record);
  } catch (error) {
    throw refusalOf(tenant, server, error, dependencies.log);
  }
}

async function load(
  tenant: string,
  server: string,
  { definition, hidden, entry: read }: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
  record: RecordRelease,
): Promise<Catalog> {
  // The directory read it without its schemas, because most servers are never requested.
  const { entry, problems } = await readCheckedEntry(server, read.raw, (schema) =>
    dependencies.checks.faultOf(tenant, schema),
  );
  const hiddenNames = new Set(hidden);
  const isHidden = ({ name }: Offer): boolean => hiddenNames.has(name);
  const made = { definition, entry, isHidden };
  const { catalog, blocks } = await buildCatalog(tenant, server, made, port, dependencies).catch((error: unknown) => {
    throw damaged(server, error);
  });
  if (dependencies.writable) await record(tenant, server, catalog.release, blocks, entry.upstream !== undefined);
  const written = blocks.find(({ cid }) => cid === catalog.contractCid)?.bytes.length;
  const heldBytes = written && written + VALUE_BYTES * valuesIn(catalog.contract, dependencies.limits.contractValues);
  return {
    ...catalog,
    ...(heldBytes !== undefined && { heldBytes }),
    problems: [...problems, ...catalog.problems],
  };
}

/** Memory that an object, a list or a member takes besides its text. */
const VALUE_BYTES = 64;

/**
 * Turns a server's failure into an error that may be shown. An unforeseen one goes to the log and affects that server
 * alone: everything else is served, listed and edited as ever.
 */
export function refusalOf(tenant: string, server: string, error: unknown, log: Log): BerthError {
  if (error instanceof BerthError) return error;
  if (lacksDescriptor(error)) return noDescriptors(error);
  log.error({ err: error, tenant, server }, "a server failed in a way that nobody foresaw");
  const message = "It failed in a way that nobody foresaw: the log of the service says how";
  return refused(server, [{ code: "unforeseen", message, severity: "error" }]);
}

/** Refuses only the server whose stored content cannot be read, and says what to do. */
function damaged(server: string, error: unknown): unknown {
  if (!(error instanceof BerthError)) return error;
  if (error.code !== "content_corrupt" && error.code !== "content_missing") return error;
  const message = `What is stored of it is damaged (${error.message}): save its definition again, or restore a backup`;
  return refused(server, [{ code: "stored-damaged", message, severity: "error" }]);
}
