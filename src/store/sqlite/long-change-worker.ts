/** A thread for one change of very many names; it ends with it. Started by `long-change.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import type { Block } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { verified } from "../rules.ts";
import type { Change, NameMove } from "../store.ts";
import { SqliteAudit } from "./audit.ts";
import { SqliteContent } from "./content.ts";
import { sqliteDerived } from "./derived.ts";
import type { LongChangeOrder, LongChangePart, LongChangeReport } from "./long-change.ts";
import { sqliteNames } from "./names.ts";
import { identityOf, moved } from "./store-files.ts";
import { StoredBytes } from "./stored-bytes.ts";

const { file, identity, busyMs } = workerData as LongChangeOrder;
const port = parentPort!;
const put: Block[] = [];
const set: NameMove[] = [];

port.on("message", (part: LongChangePart) => {
  if ("cids" in part) put.push(...unpacked(part));
  else if ("set" in part) set.push(...part.set);
  else {
    port.postMessage(carriedOut(part.tenant, { ...part.rest, put, set }));
    port.close();
  }
});
port.postMessage("ready");

function unpacked({ cids, lengths, bytes }: Extract<LongChangePart, { readonly bytes: unknown }>): Block[] {
  let at = 0;
  return cids.map((cid, index) => ({ cid, bytes: bytes.subarray(at, (at += lengths[index]!)) }));
}

function carriedOut(tenant: string, change: Change): LongChangeReport {
  try {
    for (const { cid, bytes } of put) verified(cid, bytes);
    for (const { block } of change.derived ?? []) verified(block.cid, block.bytes);
    return { moved: changed(tenant, change) };
  } catch (error) {
    const { code, message, data } = error as BerthError;
    return error instanceof BerthError ? { refusal: { code, message, data } } : { error: { code, message } };
  }
}

function changed(tenant: string, change: Change): readonly number[] {
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
