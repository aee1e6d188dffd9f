import { mayHavePackages, type Config } from "../config.ts";
import { createEdits } from "../edits/create-edits.ts";
import type { Edits } from "../edits/edits.ts";
import { loadProblems } from "../edits/examine.ts";
import { createPackageEdits, type PackageEdits } from "../edits/package-edits.ts";
import { PackageSupply } from "../edits/package-supply.ts";
import type { Host } from "../host/host.ts";
import type { HostDependencies } from "../host/open-host.ts";
import type { Log } from "../lib/log.ts";
import type { Problem } from "../lib/problem.ts";
import type { TenantLimits } from "../limits/limits.ts";
import { openNpm } from "../packages/npm.ts";
import { confinementFor } from "../processes/own-program.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import type { MakeFolder } from "../processes/work-folders.ts";
import type { Store } from "../store/store.ts";

/** The changes that people and programs make, by kind. */
export interface Editing {
  readonly edits: Edits;
  readonly packages: PackageEdits;
  /** The problems that prevent a served server's definition from loading, which is tried. */
  loadProblems(tenant: string, server: string): Promise<readonly Problem[]>;
}

interface EditParts {
  readonly host: Host;
  readonly hosting: HostDependencies & { readonly store: Store; readonly writable: boolean };
  readonly limitsOf: (tenant: string) => TenantLimits;
  readonly start: Spawn;
  readonly makeFolder: MakeFolder;
  readonly log: Log;
}

export function openEdits(config: Config, parts: EditParts): Editing & { close(): Promise<void> } {
  const { host, hosting, limitsOf, start, makeFolder, log } = parts;
  const { store, writable } = hosting;
  const npm = openNpm({
    mode: "confined",
    registry: config.registry,
    confinement: confinementFor(config.guests),
    start,
    makeFolder,
    limits: config.limits,
    onTrusted: (reason) => log.warn({ reason }, "npm works outside of the sandbox"),
  });
  const supply = new PackageSupply(npm, config.limits);
  const mayHave = (tenant: string): boolean => mayHavePackages(config, tenant);
  const directory: Host["directory"] = (tenant) => host.directory(tenant);
  const edits = createEdits({
    ...hosting,
    host,
    packageSupply: supply,
    mayHavePackages: mayHave,
    savesPerMinuteOf: (tenant) => limitsOf(tenant).savesPerMinute,
    reviewsPerMinuteOf: (tenant) => limitsOf(tenant).reviewsPerMinute,
  });
  return {
    edits,
    packages: createPackageEdits({ store, edits, supply, writable, mayHave, directory }),
    async loadProblems(tenant, server) {
      const { definition, entry } = host.directory(tenant)?.servers.get(server) ?? {};
      return definition === undefined ? [] : loadProblems(tenant, { server, definition, entry }, hosting);
    },
    close: () => npm.close(),
  };
}
