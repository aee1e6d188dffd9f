import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tenantLimitProblems } from "../../src/admission/tenant-limits.ts";
import { importTenant } from "../../src/features/tenant-files/import-tenant.ts";
import { tenantFile } from "../../src/features/tenant-files/tenant-file.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

/** Exports or imports the tenant `large` in a process of its own, which can be killed, or have little memory. */
const [work, dataDir, file] = process.argv.slice(2) as [string, string, string];
const store = await openSqliteStore({ dataDir });
if (work === "export") {
  const snapshot = await store.tenants.snapshot("large");
  await writeFile(file, tenantFile(snapshot, { tenant: "large", berth: "0.1.0" }));
  await snapshot.close();
} else {
  const source = createReadStream(file);
  await importTenant(store.tenants, source, {
    by: "import",
    replace: false,
    limits: defaultLimits,
    limitProblems: tenantLimitProblems,
    limitsAfter: (_own, ofFile) => ofFile,
  });
}
await store.close();
