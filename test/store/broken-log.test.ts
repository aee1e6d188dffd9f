import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import Database from "#better-sqlite3";
import type { Log } from "../../src/lib/log.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { recordsOf } from "../support/audit.ts";
import { testFolders, withStore, setVariable, killWriter } from "../support/store.ts";

const HEADER = 32;
const FRAME = 24 + 4096;
const SEEDS = 60;
const WRITES = 40;
const newFolder = testFolders("broken-log");

interface Opened {
  readonly names: readonly string[];
  readonly said: readonly { readonly kept?: string; readonly frame?: number }[];
  readonly recorded: readonly unknown[];
}

async function open(dataDir: string): Promise<Opened> {
  const said: { kept?: string }[] = [];
  const log = { error: (facts: { kept?: string }) => void said.push(facts), info() {} } as unknown as Log;
  const store = await openSqliteStore({ dataDir, log });
  try {
    const names = (await store.names("default", "variable")).map(({ name }) => name);
    return { names, said, recorded: await recordsOf(store.audit, { kind: "service" }) };
  } finally {
    await store.close();
  }
}

describe("a log of the store that a killed process has left", () => {
  let left: string;
  /** The acknowledged writes, and at most one that was not. */
  let all: number;
  before(async () => {
    let acknowledged: string[];
    // A process that is killed between its last commit and the index of that is of no use here.
    do {
      left = newFolder();
      await withStore(left, async (store) => {
        for (let number = 0; number < SEEDS; number++)
          await store.change("default", setVariable(`seed ${number} ${"x".repeat(500)}`, `seed-${number}`));
      });
      acknowledged = await killWriter(left, { writes: WRITES });
    } while (framesInIndex() !== frames());
    ({
      names: { length: all },
    } = await open(copy()));
    // Including the name that stands for the last write.
    assert.ok(all > acknowledged.length + SEEDS, `${all} of ${acknowledged.length}`);
  });

  const logOf = (dataDir: string): string => join(dataDir, `${DATABASE_FILE}-wal`);
  const copy = ({ withIndex = true } = {}): string => {
    const dataDir = newFolder();
    cpSync(left, dataDir, { recursive: true });
    if (!withIndex) rmSync(join(dataDir, `${DATABASE_FILE}-shm`));
    return dataDir;
  };
  const flip = (dataDir: string, at: number): void => {
    const bytes = readFileSync(logOf(dataDir));
    bytes[at]! ^= 0x10;
    writeFileSync(logOf(dataDir), bytes);
  };
  /** Those of commits; a process that is killed in the middle of a commit leaves more. */
  const frames = (): number => {
    const log = readFileSync(logOf(left));
    let frame = Math.floor((log.length - HEADER) / FRAME);
    while (log.readUInt32BE(HEADER + (frame - 1) * FRAME + 4) === 0) frame -= 1;
    return frame;
  };
  const framesInIndex = (): number => readFileSync(join(left, `${DATABASE_FILE}-shm`)).readUInt32LE(16);

  const places: Readonly<Record<string, (frame: number) => number>> = {
    "the page": (frame) => HEADER + frame * FRAME + 2_000,
    "the number of the page": (frame) => HEADER + frame * FRAME + 3,
    "the run that it is of": (frame) => HEADER + frame * FRAME + 9,
    "the checksum": (frame) => HEADER + frame * FRAME + 17,
  };
  for (const [what, place] of Object.entries(places)) {
    for (const withIndex of what === "the page" ? [true, false] : [true]) {
      it(`is reported as broken and retained when a bit of ${what} has flipped, ${withIndex ? "with" : "without"} its index`, async () => {
        const dataDir = copy({ withIndex });
        const frame = Math.floor(frames() / 2);
        flip(dataDir, place(frame));
        const [file, log] = [join(dataDir, DATABASE_FILE), logOf(dataDir)].map((each) => readFileSync(each));
        await assert.rejects(backupStore({ dataDir, file: `${dataDir}.sqlite` }), {
          code: "backup_failed",
          message: new RegExp(`wal is broken at frame ${frame + 1} of ${frames()}: start Berth`),
        });
        const { names, said, recorded } = await open(dataDir);
        assert.ok(names.length > SEEDS && names.length < all, `${names.length} of ${all}`);
        assert.equal(said.length, 1);
        const { kept, ...broken } = said[0]!;
        assert.deepEqual(broken, { frame: frame + 1, committed: frames() });
        assert.ok(readFileSync(join(kept!, `${DATABASE_FILE}-wal`)).equals(log!));
        assert.ok(readFileSync(join(kept!, DATABASE_FILE)).equals(file!));
        assert.equal((recorded as { action: string }[])[0]!.action, "log-broken");

        const again = await open(dataDir);
        assert.deepEqual([again.names, again.said.length], [names, 0], "it is reported once");
        await backupStore({ dataDir, file: `${dataDir}.sqlite` });
      });
    }
  }

  it("is reported as broken when its last commit or its beginning is damaged", async () => {
    for (const at of [HEADER + (frames() - 1) * FRAME + 2_000, 17]) {
      const dataDir = copy();
      flip(dataDir, at);
      const { names, said } = await open(dataDir);
      assert.ok(names.length >= SEEDS && names.length <= all, `${names.length} of ${all}`);
      assert.equal(said.length, 1, `at ${at}`);
    }
  });

  it("is retained by a restore", async () => {
    const backup = `${newFolder()}.sqlite`;
    await open(copy());
    const sound = copy();
    await backupStore({ dataDir: sound, file: backup });
    const dataDir = copy();
    flip(dataDir, HEADER + 3_000);
    const log = readFileSync(logOf(dataDir));
    const { kept } = await restoreStore({ dataDir, file: backup });
    assert.ok(readFileSync(join(kept!, `${DATABASE_FILE}-wal`)).equals(log));
    const { names, said } = await open(dataDir);
    assert.deepEqual([names.length, said.length], [all, 0]);
  });

  it("refuses a start and changes nothing when later frames are in the database already", async () => {
    const dataDir = copy();
    // As left by a process that was killed while it moved the log into the database.
    const moved = newFolder();
    cpSync(dataDir, moved, { recursive: true });
    const database = new Database(join(moved, DATABASE_FILE));
    database.pragma("wal_checkpoint(TRUNCATE)");
    database.close();
    cpSync(join(moved, DATABASE_FILE), join(dataDir, DATABASE_FILE));
    flip(dataDir, HEADER + Math.floor(frames() / 10) * FRAME + 2_000);
    const log = readFileSync(logOf(dataDir));
    for (let start = 0; start < 2; start++) {
      await assert.rejects(open(dataDir), {
        code: "store_failed",
        message: /wal is broken at frame \d+ of \d+, and the rest is damaged \(.+\): restore a backup/,
      });
    }
    assert.ok(readFileSync(logOf(dataDir)).equals(log));
  });

  it("is used without a report, however much of its end is missing", async () => {
    const size = statSync(logOf(left)).size;
    for (let turn = 0; turn < 40; turn++) {
      const dataDir = copy({ withIndex: turn % 2 === 0 });
      truncateSync(logOf(dataDir), HEADER + Math.floor(((size - HEADER) * (turn * 37 + 11)) / 1_500) - (turn % 3));
      const { said } = await open(dataDir);
      assert.deepEqual(said, [], `turn ${turn}`);
      const kept = readdirSync(dataDir).filter((name) => name.startsWith("broken-log"));
      assert.deepEqual(kept, []);
      rmSync(dataDir, { recursive: true });
    }
  });
});
