import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, existsSync, openSync, readSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, it, type TestContext } from "node:test";
import { call } from "../support/berth.ts";
import { testCli } from "../support/commands.ts";
import { memoryOf } from "../support/processes.ts";
import { StdioSession } from "../support/stdio-session.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

/** The capacity of a pipe on Linux, and so the most that a paused reader sees. */
const PIPE_BYTES = 64 * 1024;
const BUFFER_BYTES = 32 * 1024;
const canMount = process.platform === "linux" && process.getuid?.() === 0;

/** A named pipe whose reader reads on demand. */
class Pipe {
  readonly writer: number;
  text = "";
  readonly #reader: number;

  constructor(file: string) {
    execFileSync("mkfifo", [file]);
    this.#reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    this.writer = openSync(file, constants.O_WRONLY);
  }

  /** Everything in the pipe now. */
  read(): string {
    const bytes = Buffer.alloc(PIPE_BYTES);
    try {
      for (let read; (read = readSync(this.#reader, bytes)) > 0;) this.text += bytes.toString("utf8", 0, read);
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
    }
    return this.text;
  }

  close(): void {
    closeSync(this.writer);
    closeSync(this.#reader);
  }
}

/** A service that writes its log to a descriptor, and ends in order with the test at the latest. */
function serve(t: TestContext, stderr: number, data: string, env: Record<string, string> = {}): ChildProcess {
  const child = spawn(process.execPath, [testCli, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "ignore", stderr],
    env: { ...process.env, BERTH_LOG: "debug", BERTH_LOG_BUFFER_BYTES: String(BUFFER_BYTES), ...env },
  });
  const exited = once(child, "exit");
  t.after(async () => {
    child.kill();
    assert.deepEqual(await exited, [0, null]);
  });
  return child;
}

const addressIn = (text: string): string | undefined => /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];

async function figure(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

/** Each call is answered, whatever happens to the lines about it; there are enough for lines to be dropped. */
async function callUntilDropped(url: string): Promise<void> {
  for (let calls = 0; (await figure(url, "berth_log_lines_dropped_total")) === 0; calls += 50) {
    assert.ok(calls < 5_000, "no line was dropped");
    for (let one = 0; one < 50; one++) {
      assert.equal((await call(`${url}/mcp/echo`, "echo", { message: "on" })).content[0].text, "on");
    }
  }
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
}

const droppedIn = (text: string): number =>
  [...text.matchAll(/"dropped":(\d+),"msg":"log lines were dropped/g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );

describe("a log that cannot be written", { skip: process.platform === "win32" && "has no pipes with names" }, () => {
  const folder = temporaryFolder();

  it("delays no call while nobody reads its pipe, and logs the number of dropped lines later", async (t) => {
    const pipe = new Pipe(join(folder, "unread"));
    const child = serve(t, pipe.writer, join(folder, "unread-data"));
    t.after(() => pipe.close());
    const url = await until(() => addressIn(pipe.read()), "it listens");
    await callUntilDropped(url);
    const before = memoryOf(child.pid!).nowMb;
    await callUntilDropped(url);
    assert.ok(memoryOf(child.pid!).nowMb - before < 50, "what is not written is not kept");

    await until(() => /log lines were dropped/.test(pipe.read()), "what was dropped is told");
    const lines = pipe.text.split("\n").filter((line) => line.startsWith("{"));
    assert.doesNotThrow(() => lines.map((line) => JSON.parse(line) as unknown), "lines are whole");
    assert.equal(droppedIn(pipe.text), await figure(url, "berth_log_lines_dropped_total"));
  });

  it("lets Berth end although nobody reads its pipe, and gets the last lines if it is read", async (t) => {
    const pipe = new Pipe(join(folder, "ending"));
    for (const isRead of [false, true]) {
      const child = serve(t, pipe.writer, join(folder, `ending-${isRead}`));
      const from = pipe.read().length;
      const url = await until(() => addressIn(pipe.read().slice(from)), "it listens");
      await callUntilDropped(url);
      child.kill();
      await until(() => (!isRead || pipe.read()) && child.exitCode !== null, "it ends");
      if (isRead) assert.match(pipe.read().slice(from), /log lines were dropped/);
      else pipe.read();
    }
    pipe.close();
  });

  it("gets each kind of Node.js warning once, and warnings are printed nowhere else", async (t) => {
    const pipe = new Pipe(join(folder, "warnings"));
    const warns = join(folder, "warns.mjs");
    await writeFile(
      warns,
      `process.on("SIGUSR2", () => {
        for (const warning of ["one", "two"]) process.emitWarning(warning, "OddWarning");
        for (const code of ["A1", "A2", "A1"]) process.emitWarning("code", { type: "OddWarning", code });
      });`,
    );
    const env = { NODE_OPTIONS: `${process.env["NODE_OPTIONS"] ?? ""} --import=${warns}` };
    const child = serve(t, pipe.writer, join(folder, "warnings-data"), env);
    t.after(() => pipe.close());
    await until(() => addressIn(pipe.read()), "it listens");
    child.kill("SIGUSR2");
    await until(() => /"code":"A2"|\[A2\]/.test(pipe.read()), "all are told");
    const lines = pipe.text.split("\n").filter((line) => line.includes("OddWarning"));
    const told = lines.map((line) => JSON.parse(line) as { level: number; err: { message: string; code?: string } });
    const seen = told.map(({ level, err }) => [level, err.message, err.code]);
    assert.deepEqual(seen, [
      [40, "one", undefined],
      [40, "code", "A1"],
      [40, "code", "A2"],
    ]);
  });

  it("survives a full disk, and continues once there is space", async (t) => {
    if (!canMount) return t.skip("mounts");
    const disk = join(folder, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=128k", "tmpfs", disk]);
    const file = join(disk, "log");
    const log = openSync(file, "a");
    serve(t, log, join(folder, "disk-data"));
    closeSync(log);
    t.after(() => execFileSync("umount", [disk]));
    const url = await until(async () => addressIn(await readFile(file, "utf8")), "it listens");
    await callUntilDropped(url);
    execFileSync("mount", ["-o", "remount,size=8m", disk]);
    await until(async () => /log lines were dropped/.test(await readFile(file, "utf8")), "it is told");
    assert.equal((await call(`${url}/mcp/echo`, "echo", { message: "last" })).content[0].text, "last");
  });

  it("does not prevent a start on a full disk", async (t) => {
    if (!existsSync("/dev/full")) return t.skip("no /dev/full");
    const full = openSync("/dev/full", "w");
    const data = join(folder, "full-data");
    const child = serve(t, full, data);
    closeSync(full);
    const session = new StdioSession(["echo", "--data", join(folder, "full-stdio")], { BERTH_LOG: "debug" });
    t.after(() => session.end());
    await session.initialize();
    await until(() => existsSync(join(data, "berth.sqlite")), "it has started");
    assert.equal(child.exitCode, null);
  });

  it("answers a client on stdio though nobody reads the log", async () => {
    const pipe = new Pipe(join(folder, "stdio"));
    const log = { BERTH_LOG: "debug", BERTH_LOG_BUFFER_BYTES: String(BUFFER_BYTES) };
    const child = spawn(process.execPath, [testCli, "stdio", "echo", "--data", join(folder, "stdio-data")], {
      stdio: ["pipe", "pipe", pipe.writer],
      env: { ...process.env, ...log },
    });
    const exited = once(child, "exit");
    // A call has a line of a hundred bytes or more in the log: these calls fill the pipe and the buffer.
    const calls = 2_000;
    for (let id = 0; id < calls; id++)
      child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "echo.echo", params: { message: "x" } })}\n`);
    let answers = 0;
    for await (const line of createInterface({ input: child.stdout! }))
      if (line.includes('"id":') && ++answers === calls) break;
    child.stdout!.resume();
    assert.ok(pipe.read().length >= PIPE_BYTES - 4096, "the pipe was full");
    child.stdin!.end();
    await until(() => pipe.read() && child.exitCode !== null, "it ends");
    assert.deepEqual(await exited, [0, null]);
    pipe.close();
  });
});
