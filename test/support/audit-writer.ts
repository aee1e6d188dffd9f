/**
 * A process that appends records of the service, of a tenant of its own and of one that it shares, in turns, and anchors
 * them now and then: `FOLDER WRITER RECORDS`.
 */
import { entryOf, SERVICE } from "../../src/audit/audit-entry.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

const [dataDir, writer, records] = process.argv.slice(2) as [string, string, string];
// As many as a busy machine takes: a writer waits for the other one.
const store = await openSqliteStore({ dataDir, busyMs: 60_000 });
const tenants = [writer, "shared", SERVICE];
const ANCHOR_EVERY = 500;

for (let number = 1; number <= Number(records); number++) {
  await store.audit.append([entryOf(tenants[number % 3]!, "login", { writer, number })], { patient: true });
  if (number % ANCHOR_EVERY === 0) await store.audit.anchor({ now: true, patient: true });
}
await store.close();
