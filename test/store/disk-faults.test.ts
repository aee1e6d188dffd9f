import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Log } from "../../src/lib/log.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { stampLog } from "../../src/store/sqlite/store-files.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import type { Store } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { berth } from "../support/commands.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

const MB = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "berth-disks-"));
const mounted: string[] = [];
after(() => {
  for (const disk of mounted) spawnSync("umount", ["-l", disk]);
  rmSync(folder, { recursive: true, force: true });
});

/** A disk of `megabytes`; undefined, with the test skipped, where this user may not mount one. */
function smallDisk(t: TestContext, megabytes: number): string | undefined {
  const disk = mkdtempSync(join(folder, "disk-"));
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
function change(bytes = 10) {
  const block = rawBlock(`${(texts += 1)} ${"x".repeat(bytes)}`);
  return { by: "test", put: [block], set: [{ kind: "variable", name: "motto", cid: block.cid }] } as const;
}

async function isWell(store: Store): Promise<boolean> {
  return store.check().then(
    () => true,
    () => false,
  );
}

async function isReady({ url }: ServeProcess): Promise<boolean> {
  return (await fetch(`${url}/readyz`)).ok;
}

describe("a disk that is full", () => {
  const fillings: Readonly<Record<string, (t: TestContext) => Promise<Filling | undefined>>> = {
    "has no room": async (t) => {
      const disk = smallDisk(t, 24);
      if (disk === undefined) return undefined;
      const served = await ServeProcess.start(["--port", "0", "--data", join(disk, "data")]);
      return { served, dataDir: join(disk, "data"), fill: () => fill(disk) };
    },
    "takes no more of its files": async () => {
      const dataDir = mkdtempSync(join(folder, "data-"));
      const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
      const limit = (bytes: string): void => {
        const { status, stderr } = spawnSync("prlimit", [
          "--pid",
          String(served.child.pid),
          `--fsize=${bytes}:unlimited`,
        ]);
        assert.equal(status, 0, String(stderr));
      };
      const fill = (): (() => void) => {
        limit("4096");
        return () => limit("unlimited");
      };
      return { served, dataDir, fill };
    },
  };

  for (const [how, make] of Object.entries(fillings)) {
    it(`C8 refuses saves as long as it ${how}, which work again by themselves, and all else is served`, async (t) => {
      const made = await make(t);
      if (!made) return;
      const { served, dataDir } = made;
      t.after(() => served.end("SIGKILL"));
      const api = apiOf(served);
      assert.equal((await api.put("/variables/motto", "before")).status, 201);
      const free = made.fill();
      // Berth may have given back some room since: each text is another one, until there is none.
      let saves = 0;
      const refused = await until(async () => {
        const reply = await api.put("/variables/motto", `${(saves += 1)} ${"x".repeat(20_000)}`);
        return reply.status === 503 ? reply : undefined;
      });
      assert.equal(refused.body.error.code, "store_failed");
      assert.match(refused.body.error.message, /the disk of the data folder (is full|fails)/);
      assert.ok(!refused.body.error.message.includes(folder), "a path of the host");
      await until(async () => !(await isReady(served)));
      const read = await api.send("GET", "/variables/motto");
      assert.equal(read.status, 200);
      free();
      await until(() => isReady(served));
      assert.equal((await api.put("/variables/motto", "after")).status, 200);
      await served.end("SIGKILL");
      assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
    });
  }

  for (const [how, make] of Object.entries(fillings)) {
    it(`C8 keeps no server from being served that was never loaded, as long as it ${how}, and records it afterwards`, async (t) => {
      const made = await make(t);
      if (!made) return;
      const { served } = made;
      t.after(() => served.end("SIGKILL"));
      const api = apiOf(served);
      const recorded = async (): Promise<string[]> => {
        const { releases = [] } = (await api.send("GET", "/servers/echo/releases")).body;
        return releases.map(({ release }: { release: string }) => release);
      };
      const free = made.fill();
      await until(async () => !(await isReady(served)));
      const echo = async (name: string): Promise<unknown> =>
        (await call(`${served.url}/mcp/${name}`, "echo", { message: "heard" })).content?.[0].text;
      assert.equal(await echo("echo"), "heard");
      const listed = await api.send("GET", "/servers");
      assert.equal(listed.status, 200);
      assert.deepEqual(await recorded(), []);
      const { release } = listed.body.servers.find(({ name }: { name: string }) => name === "echo");
      assert.equal(await echo(`echo@${release}`), "heard", "a call that goes on finds its release");
      free();
      await until(async () => (await recorded()).length > 0);
      assert.deepEqual(await recorded(), [release]);
      assert.equal(await echo(`echo@${release}`), "heard");
    });
  }

  interface Filling {
    readonly served: ServeProcess;
    readonly dataDir: string;
    readonly fill: () => () => void;
  }

  it("C8 takes a tenant's file whole or not at all, which is said", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const dataDir = mkdtempSync(join(folder, "data-"));
    const store = await openSqliteStore({ dataDir });
    await store.change("default", change(MB));
    await store.close();
    fill(disk);
    const { code, stderr } = await berth([
      "tenant",
      "export",
      "default",
      "--data",
      dataDir,
      "--out",
      join(disk, "file"),
    ]);
    assert.deepEqual([code, stderr.split("\n").length], [2, 2], stderr);
    assert.match(stderr, /^berth: Nothing was copied: the file cannot be written: ENOSPC/);
    assert.deepEqual(readdirSync(disk), ["filling"]);
  });

  it("C8 is what a log that cannot be begun on it tells of", (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const database = new Database(join(disk, "some.sqlite"));
    t.after(() => database.close());
    database.pragma("journal_mode = WAL");
    database.exec("CREATE TABLE some (thing)");
    database.pragma("wal_checkpoint(TRUNCATE)");
    fill(disk);
    assert.throws(() => stampLog(database), { code: "SQLITE_FULL" });
  });

  it("C8 is not filled by the log alone, whose room is given back", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const store = await openSqliteStore({ dataDir: join(disk, "data") });
    t.after(() => store.close());
    // Each write replaces some pages: a log that is moved only at 16 MiB would have filled the disk.
    let bytes = 0;
    for (let number = 0; bytes < 24 * MB; number++) {
      await until(() =>
        store.change("default", change()).then(
          () => true,
          () => false,
        ),
      );
      bytes += 40_000;
    }
    await until(() => statSync(join(disk, "data", `${DATABASE_FILE}-wal`)).size < 6 * MB);
  });

  it("C8 that the log has filled while somebody read is recovered from when they have ended", async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return;
    const store = await openSqliteStore({ dataDir: join(disk, "data") });
    t.after(() => store.close());
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
    assert.equal(await isWell(store), false);
    reader.close();
    await until(() => isWell(store));
    await store.change("default", change(20_000));
  });

  it("C8 says so at a start, is backed up to another one, and a restore there changes nothing", async (t) => {
    const disk = smallDisk(t, 4);
    if (disk === undefined) return;
    const [dataDir, elsewhere] = [join(disk, "data"), mkdtempSync(join(folder, "else-"))];
    const store = await openSqliteStore({ dataDir });
    for (let number = 0; number < 20; number++) await store.change("default", change(50_000));
    await store.close();
    const free = fill(disk);

    const started = await berth(["serve", "--port", "0", "--data", dataDir]);
    assert.equal(started.code, 2);
    assert.match(
      started.stderr,
      new RegExp(`the data folder ${dataDir} cannot be used: its disk is full; free some space`),
    );
    const file = join(elsewhere, "backup.sqlite");
    const backedUp = await berth(["backup", file, "--data", dataDir]);
    assert.equal(backedUp.code, 0, backedUp.stderr);
    assert.deepEqual(verifyDatabase(file).problems, []);
    const here = await berth(["backup", join(disk, "copy.sqlite"), "--data", dataDir]);
    assert.equal(here.code, 2);
    assert.match(here.stderr, /its disk is full; free some space, or write it to another folder/);

    const restored = await berth(["restore", file, "--data", dataDir]);
    assert.equal(restored.code, 2);
    assert.match(
      restored.stderr,
      /data: its disk has 0\.0 MiB left, and the restored store takes 1\.\d MiB; free some space, or name another folder \(--data, BERTH_DATA\)/,
    );
    const left = readdirSync(dataDir).filter((name) => !/^berth\.sqlite(-wal|-shm)?$/.test(name));
    assert.deepEqual(left, [], "nothing is left of it");
    await restoreStore({ dataDir: join(elsewhere, "data"), file });
    free();
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });
});

describe("a disk that is too short for what is restored", () => {
  for (const isServed of [false, true]) {
    it(`C8 keeps what it has, and takes it once there is room for it${isServed ? ", while Berth serves" : ""}`, async (t) => {
      const disk = smallDisk(t, 48);
      if (disk === undefined) return;
      const [dataDir, elsewhere] = [join(disk, "data"), mkdtempSync(join(folder, "else-"))];
      const store = await openSqliteStore({ dataDir });
      for (let number = 0; number < 60; number++) await store.change("default", change(50_000));
      await store.close();
      const file = join(elsewhere, "backup.sqlite");
      const { contents } = await backupStore({ dataDir, file });
      const needed = statSync(file).size;
      const served = isServed ? await ServeProcess.start(["--port", "0", "--data", dataDir]) : undefined;
      let said = "";
      served?.child.stderr!.on("data", (text: string) => (said += text));
      t.after(() => served?.end("SIGKILL"));
      const ownFiles = (): string[] => readdirSync(dataDir).filter((name) => !/^seal|^secret|-(wal|shm)$/.test(name));
      const before = ownFiles();

      const leaveRoom = (bytes: number): (() => void) => {
        const free = fill(disk);
        truncateSync(join(disk, "filling"), statSync(join(disk, "filling")).size - bytes);
        return free;
      };
      // The serving process writes, and moves its log, after its start and after each try, which takes or frees some
      // room.
      let sizes = "";
      const isQuiet = (): boolean => {
        const before = sizes;
        sizes = String(readdirSync(dataDir).map((name) => [name, statSync(join(dataDir, name)).size]));
        return sizes === before;
      };
      const quiet = (): Promise<boolean> =>
        served
          ? until(isQuiet)
              .then(() => sleep(500))
              .then(() => isQuiet() || quiet())
          : Promise.resolve(true);
      await quiet();
      for (const room of isServed ? [MB] : [MB, needed - 64 * 1024]) {
        const free = leaveRoom(room);
        const { code, stderr } = await berth(["restore", file, "--data", dataDir]);
        assert.equal(code, 2, stderr);
        assert.match(
          stderr,
          /data: its disk has \d\.\d MiB left, and the restored store takes 3\.\d MiB; free some space/,
        );
        assert.deepEqual(ownFiles(), before);
        free();
      }
      // Neither for the previous store nor for a log beside it.
      await quiet();
      const free = leaveRoom(needed + MB);
      const { code, stderr } = await berth(["restore", file, "--data", dataDir]);
      assert.equal(code, 0, stderr);
      const kept = /What it held before is in (\S+)\./.exec(stderr)![1]!;
      assert.match(stderr, /Those are its files as they were, because they cannot be backed up: .*its disk is full/);
      await until(() => !served || /cannot be served yet/.test(said), "whoever serves tells that it cannot");
      free();
      assert.deepEqual(verifyDatabase(join(kept, DATABASE_FILE)).problems, []);
      if (served) await until(() => isReady(served).catch(() => false));
      const restored = verifyDatabase(join(dataDir, DATABASE_FILE));
      assert.deepEqual([restored.problems, restored.contents >= contents], [[], true]);
    });
  }
});

describe("a data folder that cannot be written", () => {
  it("C8 is told at a start with the cause and what to do, when its disk is read-only; a backup is made all the same", async (t) => {
    const disk = smallDisk(t, 4);
    if (disk === undefined) return;
    const dataDir = join(disk, "data");
    const store = await openSqliteStore({ dataDir });
    await store.change("default", change());
    await store.close();
    assert.equal(spawnSync("mount", ["-o", "remount,ro", disk]).status, 0);
    const started = await berth(["serve", "--port", "0", "--data", dataDir]);
    assert.equal(started.code, 2);
    assert.match(
      started.stderr,
      new RegExp(`the data folder ${dataDir} cannot be used: its disk is read-only; mount it`),
    );
    const other = await berth(["serve", "--port", "0", "--data", join(disk, "other")]);
    assert.match(other.stderr, /cannot be used: its disk is read-only; mount it writable, or name another folder/);
    const file = join(mkdtempSync(join(folder, "else-")), "backup.sqlite");
    await backupStore({ dataDir, file });
    assert.deepEqual(verifyDatabase(file).problems, []);
    const restored = await berth(["restore", file, "--data", dataDir]);
    assert.match(restored.stderr, /its disk is read-only/);
  });

  it("C8 is told at a start with whose it is, when it is another user's", async () => {
    const dataDir = mkdtempSync(join(folder, "data-"));
    await (await openSqliteStore({ dataDir })).close();
    const isRoot = process.getuid!() === 0;
    if (isRoot) chmodSync(folder, 0o755);
    else chmodSync(dataDir, 0o500);
    const { code, stderr } = await berth(["serve", "--port", "0", "--data", dataDir], isRoot ? { uid: 65_534 } : {});
    chmodSync(dataDir, 0o700);
    assert.equal(code, 2, stderr);
    if (isRoot) assert.match(stderr, / belongs to the user 0, and Berth runs as 65534; give it to the user of Berth/);
    else assert.match(stderr, /Berth may not read and write it; give it to the user of Berth/);
  });

  it("C8 is told by a backup with the cause when a file in it cannot be read", async () => {
    const dataDir = mkdtempSync(join(folder, "data-"));
    await (await openSqliteStore({ dataDir })).close();
    mkdirSync(join(dataDir, `${DATABASE_FILE}-wal`));
    const { code, stderr } = await berth(["backup", join(folder, "unread.sqlite"), "--data", dataDir]);
    assert.deepEqual(
      [code, stderr],
      [2, `berth: Nothing was copied: in the folder ${dataDir}: EISDIR: illegal operation on a directory, read\n`],
    );
  });

  it("C8 is told at a start when it is a file, and what is damaged with how to restore it", async () => {
    const file = join(mkdtempSync(join(folder, "file-")), "file");
    closeSync(openSync(file, "w"));
    for (const dataDir of [file, join(file, "below")]) {
      await assert.rejects(openSqliteStore({ dataDir }), {
        message: /it is a file, or lies below one; name another/,
      });
    }
    const dataDir = mkdtempSync(join(folder, "data-"));
    await (await openSqliteStore({ dataDir })).close();
    truncateSync(join(dataDir, DATABASE_FILE), 8192);
    await assert.rejects(openSqliteStore({ dataDir }), {
      message: /is damaged .*restore a backup with "berth restore FILE"/,
    });
  });
});

describe("a process that may open no more files", () => {
  it("C8 has no failing disk, and moves the log by a thread again once it may", async (t) => {
    const lines: string[] = [];
    const line = (...said: unknown[]): void => void lines.push(String(said.at(-1)));
    const log = { error: line, info: line } as unknown as Log;
    const dataDir = join(folder, "descriptors");
    mkdirSync(dataDir);
    const store = await openSqliteStore({ dataDir, logBytes: 256 * 1024, log });
    t.after(() => store.close());
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
    await until(() => lines.length > 0);
    assert.ok(!lines.some((each) => each.includes("the disk failed")), lines.join("\n"));
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
