/** A thread that reads one long content and ends. Started by `long-content.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import { matches } from "../../lib/cid.ts";
import { SqliteContent } from "./content.ts";
import type { LongContentOrder, LongContentReport } from "./long-content.ts";
import { identityOf, moved } from "./store-files.ts";

const { file, identity, busyMs, tenant, cid } = workerData as LongContentOrder;
const report = readIt();
const bytes = "bytes" in report ? report.bytes : undefined;
parentPort!.postMessage(report, bytes ? [bytes.buffer as ArrayBuffer] : []);

function readIt(): LongContentReport {
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { fileMustExist: true, readonly: true, timeout: busyMs });
    if (identityOf(file) !== identity) throw moved();
    const read = new SqliteContent(database).read(tenant, cid);
    if (!read) return { bytes: undefined, isSound: true };
    // Only memory of its own can be handed over.
    const bytes = read.length === read.buffer.byteLength ? read : new Uint8Array(read);
    return { bytes, isSound: matches(cid, bytes) };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { error: { code, message } };
  } finally {
    database?.close();
  }
}
