/**
 * A process that collects the tenant of a data folder without end, with no delay before anything goes, until the test
 * that started it kills it: `FOLDER`.
 */
import { writeSync } from "node:fs";
import { rawBlock } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

const [dataDir] = process.argv.slice(2) as [string];
const store = await openSqliteStore({ dataDir });
for (let count = 0; ; count++) {
  const orphans = Array.from({ length: 40 }, (_, index) => rawBlock(`orphan ${process.pid} ${count} ${index}`));
  await store.change("default", { by: "test", put: orphans });
  await store.collect({ tenants: [{ tenant: "default", historyMs: 0 }], graceMs: 0 });
  writeSync(1, `${count}\n`);
}
