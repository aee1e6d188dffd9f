import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "#better-sqlite3";
import { packageRoot } from "../../src/config.ts";
import { removeOrphanedDrafts } from "../../src/lib/draft-file.ts";
import { WorkFolders } from "../../src/processes/work-folders.ts";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { descendants, isAlive } from "../support/processes.ts";
import { pluck } from "../support/rows.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

test("a start removes what a killed Berth left, and nothing that another one uses", async (t) => {
  const children: ChildProcess[] = [];
  t.after(async () => {
    for (const child of children) if (child.kill("SIGKILL")) await once(child, "exit");
  });
  const folder = temporaryFolder(t);
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  const data = join(folder, "data");
  const started = async (dataDir: string): Promise<ServeProcess> => {
    const env = { TMPDIR: temporary, BERTH_UPSTREAM_PROGRAMS: "on" };
    const served = await ServeProcess.start(["--port", "0", "--data", dataDir], env);
    children.push(served.child);
    return served;
  };
  const hosting = async (served: ServeProcess): Promise<void> => {
    const upstream = hostile("misbehaves in calls");
    assert.equal((await apiOf(served).put("/entries/sound", JSON.stringify({ upstream }))).status, 201);
  };
  /** The folders of programs, by the folder of their process. */
  const kept = (): Map<string, string[]> => {
    const works = readdirSync(temporary).filter((name) => name.startsWith("berth-"));
    return new Map(
      works.map((name) => [name, readdirSync(join(temporary, name)).filter((each) => each.startsWith("upstream-"))]),
    );
  };
  const drafting = async (name: string): Promise<{ child: ChildProcess; draft: string }> => {
    const module = JSON.stringify(join(packageRoot, "dist", "src", "lib", "draft-file.js"));
    const work = "(draft) => (console.log(draft), new Promise(() => setInterval(() => {}, 1000)))";
    const script = `const { withDraftFile } = await import(${module}); await withDraftFile(${JSON.stringify(name)}, ${work});`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    for await (const name of child.stdout.setEncoding("utf8") as AsyncIterable<string>) {
      return { child, draft: name.trim() };
    }
    assert.fail("it ended without a draft");
  };

  const living = await started(join(folder, "other"));
  await hosting(living);
  const [livingFolder] = kept().keys();
  const killed = await started(data);
  await hosting(killed);
  assert.deepEqual(pluck([...kept().values()], "length"), [1, 1], "one program in the folder of each");
  const leftFolder = [...kept().keys()].find((name) => name !== livingFolder)!;
  const others = await drafting(join(data, "berth.sqlite"));
  const left = await drafting(join(data, "berth.sqlite"));

  // Nobody is left to clean up.
  const all = descendants(killed.child.pid);
  for (const pid of [killed.child.pid!, ...all]) {
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      // One may have ended with the one before it.
      assert.equal((error as NodeJS.ErrnoException).code, "ESRCH");
    }
  }
  await until(() => [killed.child.pid!, ...all].every((pid) => !isAlive(pid)));
  left.child.kill("SIGKILL");
  await once(left.child, "exit");
  assert.equal(kept().size, 2);
  assert.ok(existsSync(left.draft));

  const again = await started(data);
  await until(() => !kept().has(leftFolder));
  assert.ok(kept().has(livingFolder!));
  assert.equal((await call(`${living.url}/mcp/sound`, "echo")).content[0].text, "fine");
  assert.equal(kept().get(livingFolder!)!.length, 1);
  const drafts = readdirSync(data).filter((name) => /\.[0-9a-f]{12}/.test(name));
  const draft = others.draft.slice(data.length + 1);
  assert.deepEqual(drafts.sort(), [draft, `${draft}-berth-lock`]);

  for (const each of [again, living]) await each.end("SIGTERM");
  assert.deepEqual([...kept()], []);
});

test("a start follows no planted link among what a killed Berth left", async (t) => {
  const folder = temporaryFolder(t);
  const victim = join(folder, "victim");
  mkdirSync(victim);
  for (const name of ["lock", "kept"]) writeFileSync(join(victim, name), "");
  const database = join(victim, "berth.sqlite");
  const log = new Database(database);
  log.pragma("journal_mode = WAL");
  log.exec("CREATE TABLE kept (text)");
  log.close();
  const before = readFileSync(database);
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  symlinkSync(victim, join(temporary, "berth-work-linked"));
  mkdirSync(join(temporary, "berth-work-nobodys"));
  writeFileSync(join(temporary, "berth-work-nobodys", "kept"), "");
  const draft = join(temporary, "backup.sqlite.0123456789ab");
  writeFileSync(draft, "");
  symlinkSync(database, `${draft}-berth-lock`);
  const left = join(temporary, "backup.sqlite.ba9876543210");
  for (const file of [left, `${left}-berth-lock`]) writeFileSync(file, "");

  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = temporary;
  const folders = new WorkFolders();
  if (TMPDIR === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = TMPDIR;
  await folders.close();
  removeOrphanedDrafts(temporary);

  assert.deepEqual(readdirSync(victim).sort(), ["berth.sqlite", "kept", "lock"]);
  assert.ok(readFileSync(database).equals(before), "nothing was written");
  assert.deepEqual(readdirSync(join(temporary, "berth-work-nobodys")), ["kept"]);
  assert.ok(existsSync(draft));
  assert.ok(!existsSync(left), "what is really left is removed");
});
