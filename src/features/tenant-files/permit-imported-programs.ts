import { readDirectory } from "../../host/directory/directory.ts";
import { programOf } from "../../host/directory/tenant-rules.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { printableLine } from "../../lib/printable.ts";

export interface ImportedProgram {
  readonly server: string;
  /** The launcher URI. */
  readonly upstream: string;
}

/** Lists the programs that would be started. Throws `programs_refused` if there are any and they are not permitted. */
export function permitPrograms(programs: readonly ImportedProgram[], isPermitted = false): void {
  if (programs.length === 0) return;
  console.error("Its servers start programs on this machine, as the user that Berth runs as, outside the sandbox:");
  for (const { server, upstream } of programs.slice(0, SHOWN_MAX)) {
    console.error(`  ${printableLine(server)}: ${printableLine(upstream)}`);
  }
  if (programs.length > SHOWN_MAX) console.error(`  … and ${programs.length - SHOWN_MAX} more`);
  if (isPermitted) return;
  throw new BerthError("programs_refused", "nothing was changed; add --programs if you trust each of these programs");
}

/** As many as a person reads. */
const SHOWN_MAX = 100;

/**
 * The servers of a tenant to be imported that start programs on this machine, or read its environment, according to the
 * imported `mcps` value; including disabled ones. Sorted by server.
 */
export async function importedPrograms(
  tenant: string,
  mcps: Cid | undefined,
  content: (cid: Cid) => Promise<Uint8Array | undefined>,
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
  const { servers } = await readDirectory(store, tenant);
  return Array.from(servers).flatMap(([server, { entry }]) =>
    entry.upstream !== undefined && programOf(tenant, { entry, enabled: true }) !== undefined
      ? [{ server, upstream: entry.upstream }]
      : [],
  );
}
