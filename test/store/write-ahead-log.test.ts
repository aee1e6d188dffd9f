import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { DATABASE_FILE, openDatabase } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { WriteAheadLog } from "../../src/store/sqlite/write-ahead-log.ts";
import type { Store } from "../../src/store/store.ts";
import { onFlush } from "../support/flush.ts";
import { killWriter, testFolders, collectMessages } from "../support/store.ts";
import { until } from "../support/until.ts";

const writerFile = fileURLToPath(new URL("../support/store-writer.js", import.meta.url));
const PAGE_BYTES = 4096;
const LOG_BYTES = 256 * 1024;

const newFolder = testFolders("log");

interface Opened {
  readonly store: Store;
  readonly dataDir: string;
  /** Another process on the same data. */
  readonly other: Database.Database;
  /** The used bytes of the log, and how many of them stand in the database already. */
  readonly log: () => { bytes: number; moved: number };
}

async function open(t: TestContext, logBytes = LOG_BYTES): Promise<Opened> {
  const dataDir = newFolder();
  const store = await openSqliteStore({ dataDir, logBytes });
  const other = new Database(join(dataDir, DATABASE_FILE));
  t.after(async () => {
    other.close();
    await store.close();
  });
  const log = (): { bytes: number; moved: number } => {
    const [{ log, checkpointed }] = other.pragma("wal_checkpoint(NOOP)") as [{ log: number; checkpointed: number }];
    return { bytes: log * PAGE_BYTES, moved: checkpointed * PAGE_BYTES };
  };
  return { store, dataDir, other, log };
}

let blocks = 0;
async function write(store: Store, bytes: number): Promise<void> {
  for (let written = 0; written < bytes; written += 50_000) {
    const block = rawBlock(`${(blocks += 1)} ${"x".repeat(50_000)}`);
    await store.change("default", { by: "test", put: [block] });
  }
}

/** The threads that were started until the test is over. */
function watchThreads(t: TestContext): Worker[] {
  const started: Worker[] = [];
  const see = (worker: Worker): void => void started.push(worker);
  process.on("worker", see);
  t.after(() => process.off("worker", see));
  return started;
}

/** Opens a store that can start no thread, and writes until it has logged that. */
async function openWithoutThreads(t: TestContext) {
  const dataDir = newFolder();
  const { messages, log } = collectMessages();
  const store = await openSqliteStore({ dataDir, logBytes: LOG_BYTES, log });
  t.after(() => store.close());
  const end = (worker: Worker): void => void worker.terminate();
  process.on("worker", end);
  t.after(() => process.off("worker", end));
  await write(store, LOG_BYTES * 2);
  await until(() => messages.length > 0);
  return { store, dataDir, messages };
}

describe("the log of the store", () => {
  it("is moved into the database when it is long, by a thread that then ends", async (t) => {
    const threads = watchThreads(t);
    const short = await open(t);
    await write(short.store, LOG_BYTES / 4);
    const long = await open(t);
    const written = Array.from({ length: 8 }, () => write(long.store, 50_000));
    assert.ok(long.log().bytes > LOG_BYTES);
    assert.equal(long.log().moved, 0, "whoever writes does not do it");
    await Promise.all(written);
    await until(async () => long.log().bytes < LOG_BYTES);
    await until(async () => threads.every(({ threadId }) => threadId === -1));
    assert.equal(await long.store.size(), statSync(join(long.dataDir, DATABASE_FILE)).size);
    assert.ok(short.log().bytes > 0);
    assert.equal(short.log().moved, 0, "a short log is left alone");
  });

  it("is not restarted while another process reads it, and truncated afterwards", async (t) => {
    const { store, dataDir, other, log } = await open(t);
    const reader = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
    // All at once, so that it stands in the log when they begin.
    const written = Array.from({ length: 8 }, () => write(store, 50_000));
    reader.exec("BEGIN");
    const seen = reader.prepare<[], number>("SELECT count(*) FROM content").pluck();
    const before = seen.get();
    await Promise.all(written);
    await write(store, LOG_BYTES * 4);
    // The log's content from before they began to read is moved meanwhile.
    await until(async () => log().moved >= LOG_BYTES);
    assert.equal(seen.get(), before, "what they see changed under them");
    assert.ok(log().bytes > LOG_BYTES * 4);
    reader.close();
    await until(() => log().bytes < LOG_BYTES);
    await until(() => statSync(join(dataDir, `${DATABASE_FILE}-wal`)).size <= LOG_BYTES + PAGE_BYTES, "cut off");
    assert.equal(other.pragma("integrity_check", { simple: true }), "ok");
  });

  it("is moved later when another process writes, and no write is lost", async (t) => {
    const { store, other, log } = await open(t);
    await write(store, LOG_BYTES * 2);
    const threads = watchThreads(t);
    other.exec("BEGIN IMMEDIATE");
    await until(async () => threads.length > 1);
    other.exec("COMMIT");
    await until(async () => log().bytes < LOG_BYTES);
  });

  it("is restarted without looking like a change of another process", async (t) => {
    const dataDir = newFolder();
    const database = openDatabase(dataDir, 5_000);
    const log = new WriteAheadLog(database, LOG_BYTES, undefined);
    const other = new Database(join(dataDir, DATABASE_FILE));
    t.after(async () => {
      other.close();
      await log.close();
      database.close();
    });
    const fill = database.prepare("INSERT INTO content (cid, bytes) VALUES (?, zeroblob(?))");
    const beginAnew = async (): Promise<void> => {
      await log.write(() => fill.run(`own ${(blocks += 1)}`, LOG_BYTES * 2));
      await until(async () => (other.pragma("wal_checkpoint(NOOP)") as [{ log: number }])[0].log === 1);
      await log.write(() => {});
    };
    const before = log.version();
    await beginAnew();
    assert.equal(log.version(), before);
    other.exec("INSERT INTO content (cid, bytes) VALUES ('other', '')");
    const changed = log.version();
    assert.notEqual(changed, before);
    await beginAnew();
    assert.equal(log.version(), changed);
  });

  it("does not grow without limit under writes that never stop", async (t) => {
    const { store, log } = await open(t);
    const stop = new AbortController();
    const writing = (async () => {
      while (!stop.signal.aborted) await write(store, 1);
    })();
    for (let time = 0; time < 2; time++) {
      let most = 0;
      await until(async () => {
        const { bytes } = log();
        most = Math.max(most, bytes);
        return most > LOG_BYTES && bytes < most / 4;
      });
    }
    stop.abort();
    await writing;
  });

  it("is moved without a thread when none can be started, which is logged once", async (t) => {
    const { store, dataDir, messages } = await openWithoutThreads(t);
    assert.deepEqual(messages, ["no thread is available for checkpoints of the store; writes wait for them"]);
    await write(store, 1100 * PAGE_BYTES);
    await until(async () => {
      await write(store, 1);
      const other = new Database(join(dataDir, DATABASE_FILE));
      const [{ log: pages }] = other.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
      other.close();
      return pages < 100;
    });
    assert.equal(messages.length, 1);
  });

  it("is moved without a thread when a disk works again that had failed", async (t) => {
    const { store, messages } = await openWithoutThreads(t);
    const works = onFlush(t, () => Promise.reject(new Error("EIO: i/o error")));
    await assert.rejects(write(store, PAGE_BYTES), { code: "store_uncertain" });
    await until(async () => messages.includes("all writes to the store are on disk"));
    works();
    await store.check();
  });
});

describe("a process that writes", () => {
  it("can be killed at any moment, beside another one, and loses nothing that was acknowledged", async () => {
    for (const writes of [1, 25, 60]) {
      const dataDir = newFolder();
      const writers = ["first", "second"];
      const acknowledged = await Promise.all(
        writers.map((writer) => killWriter(dataDir, { writer, logBytes: 16_384, writes })),
      );
      const { messages, log } = collectMessages();
      const store = await openSqliteStore({ dataDir, log });
      for (const [index, cids] of acknowledged.entries()) {
        const names = await store.names(writers[index]!, "variable");
        const meanings = new Map(names.map(({ name, cid }) => [name, cid]));
        for (const [count, cid] of cids.entries()) assert.equal(meanings.get(`name-${count}`), cid);
        // A change that was not acknowledged may be there, but then the whole of it.
        assert.ok(names.length <= cids.length + 2);
        assert.equal(meanings.get(`name-${names.length - 2}`), meanings.get("last"));
      }
      await store.close();
      assert.deepEqual(messages, []);
      assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
    }
  });

  it("waits for another one that creates the same data folder at the same moment", async () => {
    const dataDir = newFolder();
    const other = new Database(join(dataDir, DATABASE_FILE));
    other.exec("BEGIN IMMEDIATE");
    const child = spawn(process.execPath, [writerFile, dataDir, "writer", "16384", "1"], { stdio: "ignore" });
    const closed = once(child, "close");
    const { ino } = statSync(join(dataDir, DATABASE_FILE));
    const fds = `/proc/${child.pid}/fd`;
    await until(() => readdirSync(fds).some((fd) => statSync(join(fds, fd), { throwIfNoEntry: false })?.ino === ino));
    other.exec("COMMIT");
    other.close();
    assert.deepEqual(await closed, [0, null]);
  });
});
