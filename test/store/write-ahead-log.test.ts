import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { DATABASE_FILE, openDatabase } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { WriteAheadLog } from "../../src/store/sqlite/write-ahead-log.ts";
import type { Store } from "../../src/store/store.ts";
import { onFlush } from "../support/flush.ts";
import { until } from "../support/until.ts";

const PAGE_BYTES = 4096;
const LOG_BYTES = 256 * 1024;

const folder = mkdtempSync(join(tmpdir(), "berth-log-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let folders = 0;

interface Opened {
  readonly store: Store;
  readonly dataDir: string;
  /** Another process on the same data. */
  readonly other: Database.Database;
  /** The used bytes of the log, and how many of them stand in the database already. */
  readonly log: () => { bytes: number; moved: number };
}

async function open(t: TestContext, logBytes = LOG_BYTES): Promise<Opened> {
  const dataDir = join(folder, String((folders += 1)));
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

describe("the log of the store", () => {
  it("C8 is moved into the database when it has become long, by a thread that ends with that", async (t) => {
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

  it("C8 is not begun anew while another process reads what it holds, and cut off afterwards", async (t) => {
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

  it("C8 that cannot be moved because another process writes is moved later, and no write is lost", async (t) => {
    const { store, other, log } = await open(t);
    await write(store, LOG_BYTES * 2);
    const threads = watchThreads(t);
    other.exec("BEGIN IMMEDIATE");
    await until(async () => threads.length > 1);
    other.exec("COMMIT");
    await until(async () => log().bytes < LOG_BYTES);
  });

  it("C8 that begins anew is no change of another process, but what another process writes is one", async (t) => {
    const dataDir = join(folder, String((folders += 1)));
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

  it("C8 does not grow without end under writes that never stop", async (t) => {
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

  it("C8 is moved without a thread if none can be started, which is logged once", async (t) => {
    const lines: string[] = [];
    const dataDir = join(folder, String((folders += 1)));
    const log = { error: (_facts: unknown, line: string) => void lines.push(line) } as never;
    const store = await openSqliteStore({ dataDir, logBytes: LOG_BYTES, log });
    t.after(() => store.close());
    const die = (worker: Worker): void => void worker.terminate();
    process.on("worker", die);
    t.after(() => process.off("worker", die));
    await write(store, LOG_BYTES * 2);
    await until(async () => lines.length > 0);
    assert.deepEqual(lines, ["checkpoints of the store could get no thread; writes wait for them now"]);
    await write(store, 1100 * PAGE_BYTES);
    await until(async () => {
      await write(store, 1);
      const other = new Database(join(dataDir, DATABASE_FILE));
      const [{ log: pages }] = other.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
      other.close();
      return pages < 100;
    });
    assert.equal(lines.length, 1);
  });

  it("C8 is moved without a thread, too, once a disk that had failed works again", async (t) => {
    const lines: string[] = [];
    const note = (...said: unknown[]): void => void lines.push(String(said.at(-1)));
    const dataDir = join(folder, String((folders += 1)));
    const store = await openSqliteStore({ dataDir, logBytes: LOG_BYTES, log: { error: note, info: note } as never });
    t.after(() => store.close());
    const die = (worker: Worker): void => void worker.terminate();
    process.on("worker", die);
    t.after(() => process.off("worker", die));
    await write(store, LOG_BYTES * 2);
    await until(async () => lines.length > 0);
    const works = onFlush(t, () => Promise.reject(new Error("EIO: i/o error")));
    await assert.rejects(write(store, PAGE_BYTES), { code: "store_uncertain" });
    await until(async () => lines.includes("what was written to the store is on the disk"));
    works();
    await store.check();
  });
});

const writerFile = fileURLToPath(new URL("../support/store-writer.js", import.meta.url));

describe("a process whose log is being moved", () => {
  it("C8 can be killed at any moment, beside another one that writes, and loses nothing that was acknowledged", async () => {
    for (const ms of [550, 700, 900]) {
      const dataDir = join(folder, String((folders += 1)));
      const acknowledged = await Promise.all(
        ["first", "second"].map(async (writer) => {
          const args = [writerFile, dataDir, writer, "16384"];
          const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
          const closed = once(child, "close");
          const cids: string[] = [];
          for await (const line of createInterface({ input: child.stdout })) {
            if (cids.length === 0) setTimeout(() => child.kill("SIGKILL"), ms);
            cids.push(line.split(" ")[1]!);
          }
          await closed;
          return { writer, cids };
        }),
      );
      const store = await openSqliteStore({ dataDir });
      for (const { writer, cids } of acknowledged) {
        assert.ok(cids.length > 0);
        for (const [count, cid] of cids.entries()) {
          assert.equal((await store.name(writer, "variable", `name-${count}`))?.cid, cid);
        }
      }
      await store.close();
      const database = new Database(join(dataDir, DATABASE_FILE));
      assert.equal(database.pragma("integrity_check", { simple: true }), "ok");
      database.close();
    }
  });

  it("C8 waits for another one that makes the same data folder at the same moment", async () => {
    const dataDir = join(folder, String((folders += 1)));
    mkdirSync(dataDir);
    const other = new Database(join(dataDir, DATABASE_FILE));
    other.exec("BEGIN IMMEDIATE");
    const child = spawn(process.execPath, [writerFile, dataDir, "writer", "16384", "1"], { stdio: "ignore" });
    const closed = once(child, "close");
    // It should find the file locked. If it takes longer to start, it finds it free, which is no fault.
    await Promise.race([sleep(700), closed]);
    other.exec("COMMIT");
    other.close();
    assert.deepEqual(await closed, [0, null]);
  });

  it("C8 writes to the end all that it has begun, and then is held up by nothing", async () => {
    const dataDir = join(folder, String((folders += 1)));
    const args = [writerFile, dataDir, "writer", "4096", "400"];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const closed = once(child, "close");
    let lines = 0;
    for await (const _line of createInterface({ input: child.stdout })) lines += 1;
    assert.deepEqual([(await closed)[0], lines], [0, 400]);
  });
});
