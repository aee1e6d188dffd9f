/**
 * A process that appends records of the service, of a tenant of its own and of one that it shares, in turns, and anchors
 * them now and then: `WHERE WRITER RECORDS`.
 */
import { auditEntry, SERVICE } from "../../src/audit/audit-entry.ts";
import { openWhere } from "./open-where.ts";

const [where, writer, records] = process.argv.slice(2) as [string, string, string];
const store = await openWhere(where);
const tenants = [writer, "shared", SERVICE];
const ANCHOR_EVERY = 500;

for (let number = 1; number <= Number(records); number++) {
  await store.audit.append([auditEntry(tenants[number % 3]!, "login", { writer, number })], { patient: true });
  if (number % ANCHOR_EVERY === 0) await store.audit.anchor({ now: true, patient: true });
}
await store.close();
