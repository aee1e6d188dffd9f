import { execFile } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { openSqliteStore } from "../../dist/src/store/sqlite/sqlite-store.js";
import { cli } from "../bench/berth.mjs";

const FULL_MS = 3_000;
const WAIT_MS_MAX = 60_000;

/**
 * The disk is full for a while, under load: saves are refused and say why, calls still get answers, and everything
 * works again once there is room.
 */
export async function fillDisk({ disk, service, editors, fault }) {
  const makeRoom = disk.fill(service.pid);
  try {
    // The log of the store has room for some megabytes of its own, which short saves use up slowly.
    if (
      !(await within(
        async () => (await refusedSave(service)) && (await fetch(`${service.ownUrl}/readyz`)).status === 503,
      ))
    ) {
      return fault("the disk was full, and /readyz did not say so");
    }
    const refused = await within(() => refusedSave(service));
    if (!/disk of the data folder (is full|fails)/.test(refused || "")) {
      fault(`the disk was full, and a save was told: ${refused || "that it is kept"}`);
    }
    await sleep(FULL_MS);
  } finally {
    makeRoom();
  }
  if (!(await within(async () => (await fetch(`${service.url}/readyz`)).ok)))
    return fault("there is room, and Berth waits on");
  await editors.checkAcknowledged();
}

/** The refusal of a save that needs room. */
async function refusedSave({ ownUrl: url }) {
  const init = {
    method: "PUT",
    headers: { "Content-Type": "text/plain", "If-None-Match": "*" },
    body: `${Math.random()}`.repeat(20_000),
  };
  const response = await fetch(`${url}/api/variables/filling-${Math.random()}`, init);
  const text = await response.text();
  return response.status === 503 && text;
}

/** The database crashes, and comes back after a while, under load: what was acknowledged before it is there. */
export async function crashDatabase({ postgres, service, editors, fault }) {
  await postgres.stop("crash");
  await sleep(FULL_MS);
  await postgres.startAgain();
  const acknowledged = editors.acknowledged();
  const isWell = () => editors.acknowledged().every((number, index) => number > acknowledged[index]);
  if (!(await within(isWell))) return fault("the database is back, and saves wait on");
  const isReady = async () => (await fetch(`${service.url}/readyz`)).ok;
  if (!(await within(isReady))) return fault("the database is back, and Berth is not ready");
  await within(() => editors.checkAcknowledged());
}

/**
 * A backup is restored while Berth serves: it serves the state of the backup, without later edits, and the undone
 * writes are in the copy that was kept.
 */
export async function restoreBackup({ folder, data, editors, fault }) {
  const [backup, keptIn] = [join(folder, "backup.sqlite"), join(folder, "kept")];
  const before = editors.acknowledged();
  await berth("backup", backup, "--force", "--data", data);
  const atMost = editors.sent();
  await within(() => editors.acknowledged().every((number, index) => number > atMost[index]));
  await editors.pause();
  const lost = editors.acknowledged();
  const said = await berth("restore", backup, "--data", data);
  const found = await within(async () => {
    const now = await editors.found().catch(() => undefined);
    return now?.every((number, index) => number <= atMost[index]) && now;
  });
  editors.goOn(found || before.map(() => 0));
  if (!found) return fault(`what was restored is not served: it had at most ${atMost}`);
  if (found.some((number, index) => number < before[index]))
    fault(`the backup had ${before}, and ${found} is restored`);

  const kept = /What it held before is in (.+)\.$/m.exec(said)?.[1];
  if (kept === undefined) return fault(`restore does not say what it kept: ${said}`);
  mkdirSync(keptIn, { mode: 0o700 });
  await berth("restore", kept, "--data", keptIn);
  const store = await openSqliteStore({ dataDir: keptIn });
  try {
    const record = await store.name("default", "variable", "soak");
    const text = record && new TextDecoder().decode(await store.content("default", record.cid));
    const number = Number(/value (\d+)/.exec(text ?? "")?.[1] ?? 0);
    if (number < lost[0]) fault(`${lost[0]} was taken back, and the copy that was kept has ${number}`);
  } finally {
    await store.close();
    for (const gone of [keptIn, kept, backup]) rmSync(gone, { recursive: true, force: true });
  }
  return { lost: lost.reduce((sum, number, index) => sum + number - found[index], 0) };
}

async function berth(...args) {
  const { stderr } = await promisify(execFile)(process.execPath, [cli, ...args]);
  return stderr;
}

/** The result of `look` once it is true; false when it never is. Berth may be unreachable meanwhile. */
async function within(look) {
  const end = performance.now() + WAIT_MS_MAX;
  while (performance.now() < end) {
    const seen = await Promise.resolve()
      .then(look)
      .catch(() => false);
    if (seen) return seen;
    await sleep(100);
  }
  return false;
}
