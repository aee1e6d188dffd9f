import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Client } from "pg";
import Database from "../../dist/src/store/sqlite/better-sqlite3.js";
import { DATABASE_FILE } from "../../dist/src/store/sqlite/open-database.js";
import { makeImage, serve, writeImageSources } from "../bench/berth.mjs";
import { keysOfNodes, startOwnPostgres } from "../postgres.mjs";
import { severalAuditWriters } from "./audit-writers.mjs";
import { auditVerifier } from "./audit.mjs";
import { addTenant, definitions, everything, OTHER_TENANT } from "./definitions.mjs";
import { crashDatabase, fillDisk, restoreBackup } from "./disasters.mjs";
import { mountDisk } from "./disk.mjs";
import { EDITOR, Editors } from "./editors.mjs";
import { callEach, runLoad } from "./load.mjs";
import { cutPower } from "./power-cuts.mjs";
import { descendants, markDescendants } from "./processes.mjs";
import { makeSaves } from "./saves.mjs";
import { startService } from "./service.mjs";

/**
 * `npm run soak -- --outage N`: three nodes under load, whose Postgres is away for N seconds; see cluster/outages.extended.test.
 *
 * `npm run soak -- --saves N`: as many saves through two processes, which are killed at random; see saves.mjs.
 *
 * `npm run soak -- --power-cuts N`: as many saves through one process that is killed, and whose disk loses its power.
 *
 * `npm run soak -- --nodes N`: what follows with several processes behind haproxy, one of which is killed at a time.
 * What they know together (nodes, letters, leases) must not grow.
 *
 * `npm run soak -- --nodes N --postgres`: the same on one Postgres, which crashes and comes back under load instead of a
 * full disk and a restored backup.
 *
 * `npm run soak`: two tenants, mixed calls, edits, crashing guests and kill -9 of Berth itself, for ten minutes or
 * `--minutes`, after 10,000 saves of processes that are killed, and 30,000 audit records of three, in SQLite and in Postgres. In the first 40 % of the time Berth is killed every 20 s. Then its disk is full for a while, and a
 * backup is restored while it serves. In the rest it runs on, and its memory has to stay where it was after a warm-up.
 * Calls are recorded. Everything is on this machine. Ends with 1 when an acknowledged write was lost that no restore
 * has undone, the audit log was broken, a call was answered wrongly, a process was left behind, or the memory grew.
 */

const KILL_EVERY_MS = 20_000;
const KILLING_SHARE = 0.4;
const WARM_UP_SHARE = 0.35;
/** The growth of resident memory, from the end of the warm-up to the end. */
const GROWTH_MB_MAX = 24;
/** Letters that are on their way at one moment, and what several nodes hold alone: an upstream of each tenant and more. */
const LETTERS_MAX = 100;
const LEASES_MAX = 20;
const counted = ["node", "letter", "lease"].map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`);
const KNOWN = `SELECT ${counted.join(", ")}`;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    nodes: { type: "string", default: "1" },
    saves: { type: "string" },
    "power-cuts": { type: "string" },
    outage: { type: "string" },
    postgres: { type: "boolean", default: false },
  },
});
if (values.outage !== undefined) {
  const env = { ...process.env, BERTH_TEST_OUTAGE_MS: String(Number(values.outage) * 1_000) };
  const { status } = spawnSync(process.execPath, ["--test", "dist/test/cluster/outages.extended.test.js"], {
    stdio: "inherit",
    env,
  });
  process.exit(status ?? 1);
}
if (values.saves !== undefined) {
  await makeSaves(Number(values.saves));
  process.exit();
}
if (values["power-cuts"] !== undefined) {
  await cutPower(Number(values["power-cuts"]));
  process.exit();
}
const nodes = Number(values.nodes);
if (!(Number.isInteger(nodes) && nodes >= 1 && nodes <= 8)) throw new Error("--nodes must be from 1 to 8");
const totalMs = Number(values.minutes) * 60_000;
if (!(totalMs >= 30_000 && totalMs <= 3_600_000)) throw new Error("--minutes must be from 0.5 to 60");

markDescendants();
const folder = mkdtempSync(join(tmpdir(), "berth-soak-"));
const say = (line) => console.log(`${new Date().toISOString().slice(11, 19)} ${line}`);
const faults = [];
const fault = (text) => {
  if (faults.length < 50) say(`FAULT: ${text}`);
  faults.push(text);
};
const end = performance.now() + totalMs;
let disk;
const postgres = values.postgres ? await startOwnPostgres() : undefined;
const ofPostgres = new Set(descendants().keys());

try {
  const [sources, image, data] = ["sources", "image", "data"].map((name) => join(folder, name));
  mkdirSync(sources);
  for (const [file, text] of Object.entries(definitions)) writeFileSync(join(sources, file), text);
  const own = Object.keys(definitions).map((file) => [file.replace(/\.\w+$/, ""), { definition: file }]);
  writeImageSources(sources, Object.fromEntries([...own, ["every", { upstream: everything }]]));
  await makeImage(sources, image);
  const database = await postgres?.database();
  const onPostgres = database && { ...keysOfNodes(), BERTH_DATABASE: database };
  if (!database) disk = mountDisk(data);
  await addTenant({ dataDir: data, database });

  if (!database) say(await severalAuditWriters(folder, fault));

  const launch = serve(folder, image, database ? {} : { data });
  const service = await startService(
    (port) => {
      const { env, ...rest } = launch(port);
      const given = { BERTH_TENANT_UPSTREAMS: "on", BERTH_AUDIT: "all", BERTH_ADMIN_TOKEN: EDITOR };
      return { ...rest, env: { ...env, ...onPostgres, ...given } };
    },
    { folder, nodes },
  );
  const verifyAudit = auditVerifier(data, fault, onPostgres);
  const stop = new AbortController();
  const editors = new Editors(service, ["", `/t/${OTHER_TENANT}`], fault);
  const load = runLoad(service, ["", `/t/${OTHER_TENANT}`], stop.signal, fault);
  const editing = editors.run(stop.signal);

  const killingEnds = performance.now() + totalMs * KILLING_SHARE;
  let kills = 0;
  while (performance.now() + KILL_EVERY_MS < killingEnds) {
    await sleep(KILL_EVERY_MS);
    await service.killAndRestart();
    kills += 1;
    const checked = await editors.checkAcknowledged();
    say(`killed and back ${kills} times; ${checked} acknowledged writes are there. ${await verifyAudit()}`);
  }

  await callEach(service, ["", `/t/${OTHER_TENANT}`]);
  if (postgres) {
    await crashDatabase({ postgres, service, editors, fault });
    say(`the database has crashed, and is back. ${await verifyAudit()}`);
  } else {
    await fillDisk({ disk, service, editors, fault });
    say(`the disk was full, as ${disk.kind}, and has room again. ${await verifyAudit()}`);
    const restored = await restoreBackup({ folder, data, editors, fault });
    say(`a backup was restored, which took ${restored?.lost} acknowledged writes back. ${await verifyAudit()}`);
  }

  const restMs = Math.max(0, end - performance.now());
  await sleep(restMs * WARM_UP_SHARE);
  const warmMb = await mediansMb(service.pids);
  say(`warm: ${inMb(warmMb)}`);
  await sleep(restMs * (1 - WARM_UP_SHARE));
  const endMb = await mediansMb(service.pids);
  const known = database ? await knownInPostgres(database) : knownTogether(data);
  stop.abort();
  const counts = await load;
  await editing;
  const checked = await editors.checkAcknowledged();
  await service.stop();

  if (endMb.some((mb, node) => mb - warmMb[node] > GROWTH_MB_MAX))
    fault(`memory grew from ${inMb(warmMb)} to ${inMb(endMb)}`);
  if (known.node !== nodes || known.letter > LETTERS_MAX || known.lease > LEASES_MAX)
    fault(`what nodes know together grew: ${JSON.stringify(known)}`);
  await sleep(3_000);
  for (const [pid, line] of descendants(ofPostgres)) fault(`left behind: ${pid} ${line.slice(0, 300)}`);
  say(`calls: ${JSON.stringify(counts)}. ${await verifyAudit()}`);
  say(
    `${checked} acknowledged writes kept, ${kills} kills, ${inMb(warmMb)} warm, ${inMb(endMb)} at the end; ` +
      `the nodes know together: ${JSON.stringify(known)}`,
  );
} finally {
  if (faults.length > 0) say(`the end of the log:\n${logOf(folder)}`);
  disk?.unmount();
  await postgres?.close();
  rmSync(folder, { recursive: true, force: true });
}
say(faults.length === 0 ? "soak passed" : `soak FAILED with ${faults.length} faults`);
process.exitCode = faults.length === 0 ? 0 : 1;

function mediansMb(pids) {
  return Promise.all(pids.map(medianMb));
}

function inMb(all) {
  return all.map((mb) => `${mb.toFixed(0)} MB`).join(" and ");
}

/** The rows of what several nodes know together. */
function knownTogether(data) {
  const database = new Database(join(data, DATABASE_FILE), { readonly: true });
  try {
    return database.prepare(KNOWN).get();
  } finally {
    database.close();
  }
}

async function knownInPostgres(database) {
  const client = new Client({ connectionString: database });
  await client.connect();
  const [counts] = (await client.query(KNOWN)).rows;
  await client.end();
  return Object.fromEntries(Object.entries(counts).map(([table, count]) => [table, Number(count)]));
}

/** The median of seven seconds, so that one garbage collection more or less does not count. */
async function medianMb(pid) {
  const samples = [];
  for (let sample = 0; sample < 7; sample++) {
    const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    samples.push(Number(kb) / 1024);
    await sleep(1_000);
  }
  return samples.toSorted((a, b) => a - b)[3];
}

function logOf(folder) {
  try {
    return readFileSync(join(folder, "service.log"), "utf8").slice(-4_000);
  } catch {
    return "there is none";
  }
}
