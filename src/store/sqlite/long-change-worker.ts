/** A thread for one change of very many names; it ends with it. Started by `long-change.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import { verified } from "../rules.ts";
import { SqliteAudit } from "./audit.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDerived } from "./derived.ts";
import { receiveChange, type LongChangeOrder, type LongChangeReport } from "./long-change.ts";
import { sqliteNames } from "./names.ts";
import { identityOf, moved } from "./store-files.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { sentError } from "./thread-messages.ts";

const { file, identity, busyMs, tenant } = workerData as LongChangeOrder;
const port = parentPort!;

const receiving = receiveChange(port);
port.postMessage("ready");
const change = await receiving;
let report: LongChangeReport;
try {
  for (const { cid, bytes } of change.put ?? []) verified(cid, bytes);
  for (const { block } of change.derived ?? []) verified(block.cid, block.bytes);
  report = { moved: changed() };
} catch (error) {
  report = { error: sentError(error) };
}
port.postMessage(report);
port.close();

function changed(): readonly number[] {
  const database = new Database(file, { fileMustExist: true, timeout: busyMs });
  try {
    if (identityOf(file) !== identity) throw moved();
    database.pragma("synchronous = NORMAL");
    database.pragma("foreign_keys = ON");
    database.pragma("secure_delete = ON");
    database.pragma("temp_store = MEMORY");
    // The starting thread has the log moved into the database, on a thread for that.
    database.pragma("wal_autocheckpoint = 0");
    const bytes = new StoredBytes(database, { version: () => 0 });
    const contents = new SqliteContent(database);
    const derived = sqliteDerived(database, contents, bytes);
    const names = sqliteNames(database, contents, derived, bytes, new SqliteAudit(database));
    return names.change(tenant, change);
  } finally {
    database.close();
  }
}
