import type { Cid } from "../../lib/cid.ts";
import type { McpsLimits } from "../../entry/mcps.ts";
import { readDirectory } from "../catalog/directory.ts";
import { programOf } from "./tenant-rules.ts";

export interface ImportedProgram {
  readonly server: string;
  /** The launcher URI. */
  readonly upstream: string;
}

/**
 * The servers of a tenant about to be imported that start programs on this machine, or read its environment, by the
 * `mcps` value that comes with it; disabled ones too. Sorted by server.
 */
export async function importedPrograms(
  tenant: string,
  mcps: Cid | undefined,
  content: (cid: Cid) => Promise<Uint8Array | undefined>,
  limits: McpsLimits,
): Promise<ImportedProgram[]> {
  if (mcps === undefined) return [];
  const named = { kind: "variable", name: "mcps", cid: mcps, changedAt: 0 } as const;
  const store = {
    latestChange: () => Promise.resolve(0),
    changesAfter: () => Promise.resolve(undefined),
    name: (_tenant: string, kind: string, name: string) =>
      Promise.resolve(kind === "variable" && name === "mcps" ? named : undefined),
    names: () => Promise.resolve([]),
    content: (_tenant: string, cid: Cid) => content(cid),
  };
  const { servers } = await readDirectory({ store, limits }, tenant);
  return Array.from(servers).flatMap(([server, { entry }]) =>
    entry.upstream !== undefined && programOf(tenant, { entry, enabled: true }) !== undefined
      ? [{ server, upstream: entry.upstream }]
      : [],
  );
}
