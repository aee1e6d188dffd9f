import { contractBounds } from "../../contract/contract-bounds.ts";
import type { ReadEntry, ServerEntry } from "../../entry/entry.ts";
import { readCheckedEntry } from "../../entry/mcps.ts";
import type { HostPort } from "../../executor/executor.ts";
import { isDescriptorShortage, noDescriptors } from "../../lib/error-mapping.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { countValues } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import type { Problem } from "../../lib/problem.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import type { Catalog, Offer } from "../offers/catalog.ts";
import { buildCatalog, type LoadDependencies, type PreparedRelease } from "./build-catalog.ts";
import { refused } from "./compile-once.ts";
import { recordRelease, type RecordRelease } from "./release-recorder.ts";

/** The result of loading a server, for reuse by another host of the same tenant. */
export interface PreparedServer {
  readonly checked: ReadEntry;
  readonly release: PreparedRelease;
}

export interface Loaded {
  readonly catalog: Catalog;
  /** Absent if loading the server again may have another result. */
  readonly prepared?: PreparedServer;
}

interface LoadOptions {
  readonly record?: RecordRelease;
  /** From an earlier load with the same directory entry. */
  readonly prepared?: PreparedServer | undefined;
}

/** Loads a server: definition and entry → compiled and configured → release → catalog. */
export async function loadCatalog(
  tenant: string,
  server: string,
  listed: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
  options: LoadOptions = {},
): Promise<Loaded> {
  if (listed.refused) throw refused(server, listed.problems);
  try {
    return await load(tenant, server, listed, port, dependencies, options);
  } catch (error) {
    throw toRefusal(tenant, server, error, dependencies.log);
  }
}

async function load(
  tenant: string,
  server: string,
  { definition, hidden, entry: read }: DirectoryEntry,
  port: HostPort,
  dependencies: LoadDependencies,
  { prepared, record = (...release) => recordRelease(dependencies, ...release) }: LoadOptions,
): Promise<Loaded> {
  const yieldIfDue = createYielder();
  // The directory does not validate schemas, because most servers are never requested.
  const checked =
    prepared?.checked ??
    (await readCheckedEntry(server, read.raw, (schema) => dependencies.checks.faultOf(tenant, schema)));
  const { entry, problems } = checked;
  await yieldIfDue();
  const hiddenNames = new Set(hidden);
  const isHidden = ({ name }: Offer): boolean => hiddenNames.has(name);
  const input = { definition, entry, isHidden };
  const pending = buildCatalog(tenant, server, input, port, dependencies, prepared?.release);
  const built = await pending.catch((error: unknown) => {
    throw refuseDamaged(server, error);
  });
  const { catalog, blocks } = built;
  if (dependencies.writable) await record(tenant, server, catalog.release, blocks, entry.upstream !== undefined);
  const contractLength = blocks.find(({ cid }) => cid === catalog.contractCid)?.bytes.length;
  const heldBytes =
    contractLength && contractLength + VALUE_BYTES * countValues(catalog.contract, contractBounds.contractValues);
  const all = [...problems, ...catalog.problems];
  return {
    catalog: { ...catalog, ...(heldBytes !== undefined && { heldBytes }), problems: all },
    ...(built.prepared && isReusable(entry, all) && { prepared: { checked, release: built.prepared } }),
  };
}

/** False if transforms run, or an error may be temporary: then loading again may have another result. */
function isReusable({ transforms }: ServerEntry, problems: readonly Problem[]): boolean {
  return Object.keys(transforms).length === 0 && problems.every(({ severity }) => severity !== "error");
}

/** Overhead in memory of an object, list or property, in addition to its JSON. */
const VALUE_BYTES = 64;

/** Converts a failure to load a server into an error for clients. Unexpected ones are logged, and affect one server. */
export function toRefusal(tenant: string, server: string, error: unknown, log: Log): BerthError {
  if (error instanceof BerthError) return error;
  if (isDescriptorShortage(error)) return noDescriptors(error);
  log.error({ err: error, tenant, server }, "a server failed unexpectedly");
  const message = "It failed unexpectedly: see the log of the service";
  return refused(server, [{ code: "unforeseen", message, severity: "error" }]);
}

/** Converts errors of damaged content into a refusal of the server that says what to do. */
function refuseDamaged(server: string, error: unknown): unknown {
  if (!(error instanceof BerthError)) return error;
  if (error.code !== "content_corrupt" && error.code !== "content_missing") return error;
  const message = `Its stored content is damaged (${error.message}): save its definition again, or restore a backup`;
  return refused(server, [{ code: "stored-damaged", message, severity: "error" }]);
}
