import { createReadStream } from "node:fs";
import { limitsAfterImport, tenantLimitProblems } from "../../admission/tenant-limits.ts";
import { type Config, mayStartPrograms } from "../../config.ts";
import type { Store } from "../../store/store.ts";
import type { FileOptions } from "../feature.ts";
import { importTenant } from "./import-tenant.ts";
import { importedPrograms, permitPrograms } from "./permit-imported-programs.ts";

/** Returns the name of the tenant. */
export async function fillFromFile(
  { tenants }: Store,
  file: string,
  config: Config,
  { as, programs: isPermitted }: FileOptions,
): Promise<string> {
  const read = { by: "image", replace: true, as, limitProblems: tenantLimitProblems };
  const { tenant } = await importTenant(tenants, createReadStream(file), {
    ...read,
    limits: config.limits,
    limitsAfter: (own, ofFile) => limitsAfterImport(config.limits, own, ofFile),
    async mayPublish(found, content) {
      if (mayStartPrograms(config, found.tenant)) {
        const programs = await importedPrograms(found.tenant, found.mcps, content);
        permitPrograms(programs, isPermitted);
      }
      return true;
    },
  });
  return tenant;
}
