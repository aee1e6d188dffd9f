import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join, dirname } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import Database from "#better-sqlite3";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { stampLog } from "../../src/store/sqlite/store-files.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { berth, exits } from "../support/commands.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { testFolders, setVariable, withStore, execute, collectMessages } from "../support/store.ts";
import { closeAfter } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const MB = 1024 * 1024;
const mounted: string[] = [];
after(() => {
  for (const disk of mounted) spawnSync("umount", ["-l", disk]);
});
const newFolder = testFolders("disks");

/** A disk of `megabytes`; undefined, with the test skipped, where this user may not mount one. */
function smallDisk(t: TestContext, megabytes: number): string | undefined {
  const disk = newFolder();
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=700`, "tmpfs", disk]);
  if (status === 0) {
    mounted.push(disk);
    return disk;
  }
  t.skip(`no disk can be mounted here, which root can: ${String(stderr).trim()}`);
  return undefined;
}

/** Writes until there is no room; the returned function frees it. */
function fill(disk: string): () => void {
  const file = join(disk, "filling");
  const opened = openSync(file, "w");
  for (const bytes of [MB, 4096, 1]) {
    try {
      for (;;) writeSync(opened, Buffer.alloc(bytes, 1));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
    }
  }
  closeSync(opened);
  return () => rmSync(file);
}

let texts = 0;
const change = (bytes = 10) => setVariable(`${(texts += 1)} ${"x".repeat(bytes)}`);

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

describe("a disk that is full", () => {
  it("refuses saves while Berth may write no more to its files, and everything else is served", async (t) => {
    const dataDir = newFolder();
    const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
    t.after(() => served.end("SIGKILL"));
    const limit = (bytes: string): void => {
      const { status, stderr } = spawnSync("prlimit", [`--pid=${served.child.pid}`, `--fsize=${bytes}:unlimited`]);
      assert.equal(status, 0, String(stderr));
    };
    const isReady = async (): Promise<boolean> => (await fetch(`${served.url}/readyz`)).ok;
    const api = apiOf(served);
    const releases = async (): Promise<string[]> => {
      const { releases = [] } = (await api.send("GET", "/servers/echo/releases")).body;
      return releases.map(({ release }: { release: string }) => release);
    };
    const echo = async (name: string): Promise<unknown> =>
      (await call(`${served.url}/mcp/${name}`, "echo", { message: "heard" })).content?.[0].text;
    assert.equal((await api.put("/variables/motto", "before")).status, 201);
    limit("4096");
    const refused = await api.put("/variables/motto", "refused");
    assert.equal(refused.body.error.code, "store_failed");
    assert.match(refused.body.error.message, /the disk of the data folder (is full|fails)/);
    assert.ok(!refused.body.error.message.includes(dataDir), "a path of the host");
    await until(async () => !(await isReady()));
    assert.equal((await api.send("GET", "/variables/motto")).status, 200);
    // A server that was never loaded is served, and recorded later.
    assert.equal(await echo("echo"), "heard");
    const { release } = (await api.send("GET", "/servers")).body.servers.find(
      ({ name }: { name: string }) => name === "echo",
    );
    assert.deepEqual(await releases(), []);
    assert.equal(await echo(`echo@${release}`), "heard");
    limit("unlimited");
    await until(isReady);
    assert.equal((await api.put("/variables/motto", "after")).status, 200);
    await until(async () => (await releases()).length > 0);
    assert.deepEqual(await releases(), [release]);
    await served.end("SIGKILL");
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });

  it("writes an export whole or not at all, and reports which", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const dataDir = newFolder();
    await withStore(dataDir, (store) => store.change("default", change(MB)));
    fill(disk);
    const command = `tenant export default --data ${dataDir} --out ${join(disk, "file")}`;
    const { code, stderr } = await berth(command.split(" "));
    assert.deepEqual([code, stderr.split("\n").length], [2, 2], stderr);
    assert.match(stderr, /^berth: Nothing was copied: the file cannot be written: ENOSPC/);
    assert.deepEqual(readdirSync(disk), ["filling"]);
  });

  it("is the reported cause when no log can be begun", (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const database = closeAfter(t, new Database(join(disk, "some.sqlite")));
    database.pragma("journal_mode = WAL");
    database.exec("CREATE TABLE some (thing)");
    database.pragma("wal_checkpoint(TRUNCATE)");
    fill(disk);
    assert.throws(() => stampLog(database), { code: "SQLITE_FULL" });
  });

  it("is not filled by the log alone, which is truncated", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const store = closeAfter(t, await openSqliteStore({ dataDir: join(disk, "data") }));
    // Each write replaces some pages: a log that is moved only at 16 MiB would have filled the disk.
    let bytes = 0;
    for (let number = 0; bytes < 24 * MB; number++) {
      await until(() => succeeds(store.change("default", change())));
      bytes += 40_000;
    }
    await until(() => statSync(join(disk, "data", `${DATABASE_FILE}-wal`)).size < 6 * MB);
  });

  it("recovers when a long read has ended during which the log filled it", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const store = closeAfter(t, await openSqliteStore({ dataDir: join(disk, "data") }));
    await store.change("default", change());
    const reader = new Database(join(disk, "data", DATABASE_FILE), { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM content").get();
    await assert.rejects(
      async () => {
        for (;;) await store.change("default", change(20_000));
      },
      { code: "store_failed", message: /the disk of the data folder is full, and nothing was changed/ },
    );
    assert.ok((await store.history("default", "variable", "motto")).length > 10, "what stands is read");
    assert.equal(await succeeds(store.check()), false);
    reader.close();
    await until(() => succeeds(store.check()));
    await store.change("default", change(20_000));
  });

  it("is reported at a start, can be backed up to another disk, and is unchanged by a restore", async (t) => {
    const disk = smallDisk(t, 4);
    if (disk === undefined) return;
    const [dataDir, elsewhere] = [join(disk, "data"), newFolder()];
    await withStore(dataDir, async (store) => {
      for (let number = 0; number < 20; number++) await store.change("default", change(50_000));
    });
    const free = fill(disk);

    const started = await exits(2, berth(["serve", "--port", "0", "--data", dataDir]));
    assert.match(
      started.stderr,
      new RegExp(`the data folder ${dataDir} cannot be used: its disk is full; free some space`),
    );
    const file = join(elsewhere, "backup.sqlite");
    await exits(0, berth(["backup", file, "--data", dataDir]));
    assert.deepEqual(verifyDatabase(file).problems, []);
    const here = await exits(2, berth(["backup", join(disk, "copy.sqlite"), "--data", dataDir]));
    assert.match(here.stderr, /its disk is full; free some space, or write it to another folder/);

    const restored = await exits(2, berth(["restore", file, "--data", dataDir]));
    assert.match(
      restored.stderr,
      /data: its disk has 0\.0 MiB left, but the restored store needs 1\.\d MiB; free some space, or name another folder \(--data, BERTH_DATA\)/,
    );
    const left = readdirSync(dataDir).filter((name) => !/^berth\.sqlite(-wal|-shm)?$/.test(name));
    assert.deepEqual(left, [], "nothing is left of it");
    await restoreStore({ dataDir: join(elsewhere, "data"), file });
    free();
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });
});

describe("a disk that is too small for what is restored", () => {
  it("keeps what it has, and accepts the restore once there is room for it", async (t) => {
    const disk = smallDisk(t, 48);
    if (disk === undefined) return;
    const [dataDir, file] = [join(disk, "data"), join(newFolder(), "backup.sqlite")];
    await withStore(dataDir, async (store) => {
      for (let number = 0; number < 60; number++) await store.change("default", change(50_000));
    });
    const { contents } = await backupStore({ dataDir, file });
    const needed = statSync(file).size;
    const before = readdirSync(dataDir);
    const leave = (bytes: number): (() => void) => {
      const free = fill(disk);
      truncateSync(join(disk, "filling"), statSync(join(disk, "filling")).size - bytes);
      return free;
    };
    for (const bytes of [MB, needed - 64 * 1024]) {
      const free = leave(bytes);
      const message = /data: its disk has \d\.\d MiB left, but the restored store needs 3\.\d MiB; free some space/;
      await assert.rejects(restoreStore({ dataDir, file }), { message });
      assert.deepEqual(readdirSync(dataDir), before);
      free();
    }
    // Enough neither for the previous store nor for a log next to it.
    const free = leave(needed + MB);
    const { kept, damage } = await restoreStore({ dataDir, file });
    assert.match(damage ?? "", /its disk is full/);
    free();
    assert.deepEqual(verifyDatabase(join(kept!, DATABASE_FILE)).problems, []);
    const restored = verifyDatabase(join(dataDir, DATABASE_FILE));
    assert.deepEqual([restored.problems, restored.contents >= contents], [[], true]);
  });

  it("is tried again by a Berth that serves, until the restored store can be served", async (t) => {
    const disk = smallDisk(t, 48);
    if (disk === undefined) return;
    const [dataDir, file] = [join(disk, "data"), join(newFolder(), "backup.sqlite")];
    const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
    t.after(() => served.end("SIGKILL"));
    let output = "";
    served.child.stderr!.on("data", (text: string) => (output += text));
    const api = apiOf(served);
    assert.equal((await api.put("/variables/motto", "restored")).status, 201);
    await backupStore({ dataDir, file });
    execute(join(dataDir, DATABASE_FILE), "UPDATE content SET bytes = x'00' WHERE id = 1");
    const free = fill(disk);
    truncateSync(join(disk, "filling"), statSync(join(disk, "filling")).size - statSync(file).size - MB / 4);
    // It must not open the restored store before the disk is full.
    served.child.kill("SIGSTOP");
    await restoreStore({ dataDir, file });
    fill(disk);
    served.child.kill("SIGCONT");
    await until(() => output.includes("cannot be served yet"));
    free();
    await until(async () => (await api.send("GET", "/variables/motto").catch(() => undefined))?.status === 200);
  });
});

describe("a data folder that cannot be written", () => {
  it("is reported at a start when its disk is read-only, and can be backed up", async (t) => {
    const disk = smallDisk(t, 4);
    if (disk === undefined) return;
    const dataDir = join(disk, "data");
    await withStore(dataDir, (store) => store.change("default", change()));
    assert.equal(spawnSync("mount", ["-o", "remount,ro", disk]).status, 0);
    const started = await exits(2, berth(["serve", "--port", "0", "--data", dataDir]));
    assert.match(
      started.stderr,
      new RegExp(`the data folder ${dataDir} cannot be used: its disk is read-only; mount it`),
    );
    const other = await berth(["serve", "--port", "0", "--data", join(disk, "other")]);
    assert.match(other.stderr, /cannot be used: its disk is read-only; mount it writable, or name another folder/);
    const file = join(newFolder(), "backup.sqlite");
    await backupStore({ dataDir, file });
    assert.deepEqual(verifyDatabase(file).problems, []);
    const restored = await berth(["restore", file, "--data", dataDir]);
    assert.match(restored.stderr, /its disk is read-only/);
  });

  it("is reported at a start with its owner, when it is another user's", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async () => {});
    const isRoot = process.getuid!() === 0;
    if (isRoot) chmodSync(dirname(dataDir), 0o755);
    else chmodSync(dataDir, 0o500);
    const { code, stderr } = await berth(["serve", "--port", "0", "--data", dataDir], isRoot ? { uid: 65_534 } : {});
    chmodSync(dataDir, 0o700);
    assert.equal(code, 2, stderr);
    if (isRoot) assert.match(stderr, / belongs to user 0, but Berth runs as 65534; make Berth's user its owner/);
    else assert.match(stderr, /Berth may not read and write it; make Berth's user its owner/);
  });

  it("is reported by a backup when a file in it cannot be read", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async () => {});
    mkdirSync(join(dataDir, `${DATABASE_FILE}-wal`));
    const { code, stderr } = await berth(["backup", join(newFolder(), "unread.sqlite"), "--data", dataDir]);
    assert.deepEqual(
      [code, stderr],
      [2, `berth: Nothing was copied: in the folder ${dataDir}: EISDIR: illegal operation on a directory, read\n`],
    );
  });

  it("is reported at a start when it is a file, or is damaged", async () => {
    const file = join(newFolder(), "file");
    closeSync(openSync(file, "w"));
    for (const dataDir of [file, join(file, "below")]) {
      await assert.rejects(openSqliteStore({ dataDir }), {
        message: /it is a file, or inside of one; name another/,
      });
    }
    for (const damage of [
      (file: string) => truncateSync(file, 8192),
      (file: string) => writeFileSync(file, "this is not a database".repeat(40)),
    ]) {
      const dataDir = newFolder();
      await withStore(dataDir, async () => {});
      damage(join(dataDir, DATABASE_FILE));
      await assert.rejects(openSqliteStore({ dataDir }), {
        code: "store_failed",
        message: /is damaged .*restore a backup with "berth restore FILE"/,
      });
    }
  });
});

describe("a process that can open no more files", () => {
  it("does not take that for a failing disk, and moves the log again once it may", async (t) => {
    const { messages, log } = collectMessages();
    const dataDir = newFolder();
    const store = closeAfter(t, await openSqliteStore({ dataDir, logBytes: 256 * 1024, log }));
    const limit = spawnSync("prlimit", ["--pid", String(process.pid), "--nofile=512:"]);
    assert.equal(limit.status, 0, String(limit.stderr));
    const held: number[] = [];
    const release = (): void => held.splice(0).forEach((descriptor) => closeSync(descriptor));
    t.after(release);
    try {
      for (;;) held.push(openSync("/dev/null", "r"));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "EMFILE");
    }
    // Some undone saves revert more than SQLite keeps in memory by itself.
    for (let number = 0; number < 60; number++) {
      await store.change("default", change(50_000));
      await store.check();
    }
    await until(() => messages.length > 0);
    assert.ok(!messages.some((each) => each.includes("the disk failed")), messages.join("\n"));
    release();
    await until(async () => {
      await store.change("default", change());
      const other = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
      const [{ log: pages }] = other.pragma("wal_checkpoint(NOOP)") as [{ log: number }];
      other.close();
      return pages * 4096 < 256 * 1024;
    });
    assert.ok(existsSync(join(dataDir, DATABASE_FILE)));
  });
});
