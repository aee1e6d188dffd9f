import { strict as assert } from "node:assert";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { describe, it, type TestContext } from "node:test";
import { openSpawnHelper } from "../../../src/processes/spawn/spawn-helper.ts";
import {
  spawnDirectly,
  type Spawn,
  type SpawnedProcess,
  type Spawner,
  type SpawnRequest,
} from "../../../src/processes/spawn/spawn.ts";
import { descendants, givingWayBy, isAlive, processesWith, statOf } from "../../support/processes.ts";
import { closeAfter, temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const sh = (script: string, stdio: SpawnRequest["stdio"] = ["pipe", "pipe"]): SpawnRequest => ({
  file: "/bin/sh",
  args: ["-c", script],
  env: {},
  stdio,
});

describe("processes are started", () => {
  for (const how of ["directly", "by a helper"] as const) {
    const startFor = async (t: TestContext): Promise<Spawn> => {
      if (how === "directly") return spawnDirectly;
      const helper = closeAfter(t, await openReady());
      return helper.start;
    };

    it(`${how}, with all their pipes, even if many end at once`, async (t) => {
      const start = await startFor(t);
      const request: SpawnRequest = { file: "/bin/true", args: [], env: {}, stdio: ["pipe", "pipe", "pipe"] };
      const started = await Promise.all(Array.from({ length: 40 }, () => start(request)));
      for (const { pipes, exited } of started) {
        for (const pipe of pipes) pipe!.on("error", () => {}).destroy();
        assert.deepEqual(await exited, { code: 0, signal: null });
      }
    });

    it(`${how}, with a pipe for each descriptor that wants one`, async (t) => {
      const start = await startFor(t);
      const started = await start(sh("cat; echo more >&3; exit 7", ["pipe", "pipe", "ignore", "pipe"]));
      const printed = [textOf(started, 1), textOf(started, 3)];
      started.pipes[0]!.end("given");
      assert.equal(started.pipes[2], undefined);
      assert.deepEqual(await Promise.all(printed), ["given", "more\n"]);
      assert.deepEqual(await started.exited, { code: 7, signal: null });
    });

    it(`${how}, and none of what they write at once is lost while their parent is busy`, async (t) => {
      const start = await startFor(t);
      const starting = start(sh("seq 1 2000; seq 1 2000 >&2; seq 1 2000 >&3", ["ignore", "pipe", "pipe", "pipe"]));
      const until = performance.now() + 150;
      while (performance.now() < until);
      const started = await starting;
      const expected = Array.from({ length: 2000 }, (_, index) => `${index + 1}\n`).join("");
      assert.deepEqual(await Promise.all([1, 2, 3].map((each) => textOf(started, each))), Array(3).fill(expected));
    });

    it(`${how}, giving way and leading a group and a session without a terminal when asked to`, async (t) => {
      const start = await startFor(t);
      const started = await start({ ...sh("read line"), group: true, niceness: 7, outOfMemoryScore: 900 });
      const { group, session, terminal, niceness } = statOf(started.pid)!;
      assert.deepEqual([group, session, terminal, niceness], [started.pid, started.pid, 0, givingWayBy(7)]);
      assert.equal(readFileSync(`/proc/${started.pid}/oom_score_adj`, "utf8"), "900\n");
      process.kill(-started.pid, "SIGTERM");
      assert.deepEqual(await started.exited, { code: null, signal: "SIGTERM" });
    });

    it(`${how}, or it is said why not`, async (t) => {
      const start = await startFor(t);
      await assert.rejects(start({ ...sh(""), file: "/nowhere/at-all" }), { code: "ENOENT" });
      await assert.rejects(start({ ...sh(""), args: ["\0"] }), { code: "ERR_INVALID_ARG_VALUE" });
    });
  }
});

describe("a spawn helper", () => {
  it("leaves nothing of its own to what it starts: no descriptor, no variable", async () => {
    const helper = await openReady();
    const listing = "for each in /proc/self/fd/*; do echo ${each##*/}; done; env";
    const [helped, directly] = await Promise.all(
      [helper.start, spawnDirectly].map(async (start) => {
        const started = await start({ ...sh(listing, ["ignore", "pipe", "ignore"]), env: { OWN: "1" } });
        return (await textOf(started, 1)).split("\n").sort();
      }),
    );
    assert.ok(directly!.includes("OWN=1"));
    assert.deepEqual(helped, directly);
    await helper.close();
  });

  it("takes what it has started with it when it is killed, and processes start all the same", async () => {
    let gone = 0;
    const helper = await openReady(() => (gone += 1));
    const started = await helper.start({ ...sh("read line"), group: true });
    process.kill(statOf(started.pid)!.parent, "SIGKILL");
    assert.deepEqual(await started.exited, { code: null, signal: "SIGKILL" });
    await until(() => gone === 1 && descendants().length === 1, "nothing of it is alive, and the guard is left");
    const next = await helper.start(sh("exit 3"));
    assert.deepEqual(await next.exited, { code: 3, signal: null });
    await helper.close();
  });

  it("ends with whoever it starts for, be that killed while a pipe is on its way to it", async () => {
    const service = startService(`
      const sh = { file: "/bin/sh", args: ["-c", "read line"], env: {}, stdio: ["pipe"], group: true };
      await ready(sh);
      void helper.start(sh);
      // The question has been sent, and its answers are never taken.
      setImmediate(() => {
        writeSync(1, "asked");
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });
    `);
    await once(service.stdout, "data");
    const family = (): number[] => descendants(service.pid);
    // Its helper, their guard, and the started process.
    await until(() => family().length === 3, "the process was started");
    const all = family();
    service.kill("SIGKILL");
    await until(() => all.every((pid) => !isAlive(pid)), "nothing of it is alive");
  });

  it("ends what does not end with its pipes when whoever it starts for is killed, and removes its own folder", async (t) => {
    const folder = temporaryFolder(t);
    const service = startService(`
      const wait = { file: "/bin/sh", args: ["-c", "read line"], env: {}, stdio: ["pipe"], group: true };
      const stubborn = { ...wait, args: ["-c", "trap '' TERM HUP INT; while :; do sleep 1; done"], stdio: [] };
      await ready(wait);
      await helper.start({ ...stubborn, cwd: ${JSON.stringify(folder)}, hasOwnFolder: true });
      console.log("started");
    `);
    await once(service.stdout, "data");
    // The helper, their guard, the shell, and the program that it waits for.
    await until(() => descendants(service.pid).length === 4, "all is running");
    const all = descendants(service.pid);
    service.kill("SIGKILL");
    await until(() => !all.some((pid) => isAlive(pid)) && !existsSync(folder), "nothing of it is left");
  });

  for (const [order, kill] of Object.entries({
    "is killed first":
      "process.kill(parent, 'SIGKILL'); for (let left = 20; left > 0 && (await next()) !== process.pid; left -= 1);",
    "is killed together with it": "await next(); process.kill(parent, 'SIGKILL');",
  })) {
    it(`leaves nobody who is deaf to all when it ${order}, and then whoever it starts for`, async () => {
      const mark = `deaf-${process.pid}-${order.length}`;
      const service = startService(`
        const deaf = "trap '' TERM HUP INT; sleep 1000 & setsid sleep 1000 & while :; do sleep 1; done";
        const env = { PATH: process.env.PATH, [MARK]: newMark(), DEAF: ${JSON.stringify(mark)} };
        const start = () => helper.start({ file: "/bin/sh", args: ["-c", deaf], env, stdio: [], group: true });
        // Nothing else keeps it alive once its helper is gone.
        setInterval(() => {}, 60_000);
        await ready({ file: "/bin/sh", args: ["-c", "read line"], env, stdio: ["pipe"] });
        const next = () => start().then(parentOf).catch(() => 0);
        const parent = await next();
        ${kill}
        process.kill(process.pid, "SIGKILL");
      `);
      const [, signal] = (await once(service, "exit")) as [null, string];
      assert.equal(signal, "SIGKILL");
      await until(() => !processesWith(mark).some(isAlive), "nothing of it is alive");
    });
  }

  it("keeps those that give way within the quota of its container, and ends those that it holds up, too", async (t) => {
    const container = temporaryFolder(t);
    // Written atomically, since another process reads it meanwhile.
    const write = (name: string, text: string): void => {
      writeFileSync(join(container, "next"), text);
      renameSync(join(container, "next"), join(container, name));
    };
    write("cgroup", "0::/\n");
    write("mountinfo", `1 0 0:1 / ${container} rw - cgroup2 none rw\n`);
    write("cpu.max", "100000 100000\n");
    let usedMs = 0;
    const use = (ms: number): void => write("cpu.stat", `usage_usec ${(usedMs += ms) * 1_000}\n`);
    use(0);
    const helper = closeAfter(t, await openReady(() => {}, container));
    const burn = { ...sh("while :; do :; done"), group: true };
    const [burning, serving] = [await helper.start({ ...burn, niceness: 19 }), await helper.start(burn)];
    const isHeld = ({ pid }: SpawnedProcess): boolean => statOf(pid)!.state === "T";
    await until(() => (use(1_000), isHeld(burning)), "it was held up");
    assert.equal(isHeld(serving), false);
    await until(() => !isHeld(burning), "it goes on");
    await until(() => (use(1_000), isHeld(burning)), "it was held up again");
    await helper.close();
    assert.equal((await burning.exited).signal, "SIGKILL");
    await until(() => descendants().length === 0, "nothing of it is alive");
  });

  it("ends what still runs when it is closed", async () => {
    const helper = await openReady();
    const started = await helper.start({ ...sh("read line"), group: true });
    await helper.close();
    assert.equal((await started.exited).signal, "SIGKILL");
    await until(() => descendants().length === 0, "nothing of it is alive");
  });
});

/** A process with a helper of its own, whose code may use `helper`, and wait until that is `ready`. */
function startService(code: string): ChildProcessByStdio<null, Readable, null> {
  const source = (name: string): string =>
    JSON.stringify(new URL(`../../../src/processes/spawn/${name}.js`, import.meta.url).href);
  const script = `
    import { readFileSync, writeSync } from "node:fs";
    import { MARK, newMark } from ${source("marked")};
    import { openSpawnHelper } from ${source("spawn-helper")};
    const helper = openSpawnHelper({ onGone() {}, onStderr() {} });
    const parentOf = ({ pid }) =>
      Number(readFileSync("/proc/" + pid + "/stat", "utf8").split(") ").at(-1).split(" ")[1]);
    const ready = async (request) => {
      for (let parent = process.pid; parent === process.pid;) {
        const started = await helper.start(request);
        parent = parentOf(started);
        started.pipes[0].end();
        await started.exited;
      }
    };
    ${code}`;
  return spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
}

/** Resolves when the helper is ready: before that, it starts processes directly. */
async function openReady(onGone: () => void = () => {}, quotaFolder?: string): Promise<Spawner> {
  const helper = openSpawnHelper({ onGone, onStderr: (text) => process.stderr.write(text) }, quotaFolder);
  for (;;) {
    const { pid, exited, pipes } = await helper.start(sh("read line"));
    const { parent } = statOf(pid)!;
    pipes[0]!.end();
    await exited;
    if (parent !== process.pid) return helper;
  }
}

async function textOf({ pipes }: SpawnedProcess, descriptor: number): Promise<string> {
  let text = "";
  for await (const chunk of pipes[descriptor]!.setEncoding("utf8")) text += chunk as string;
  return text;
}
