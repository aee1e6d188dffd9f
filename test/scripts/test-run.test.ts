import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { isAlive } from "../support/processes.ts";
import { folderWith, temporaryFolder } from "../support/suite.ts";
import { runTests } from "../support/test-run.ts";
import { until } from "../support/until.ts";

const LINUX = { skip: process.platform === "linux" ? false : "processes are looked at in /proc" };

/** The report of a test run, on request, about a file that does not end; then the file is ended. */
async function whereIs(t: TestContext, code: string): Promise<string> {
  const folder = temporaryFolder(t);
  const [file, mark] = [join(folder, "hanging.test.mjs"), join(folder, "there")];
  const imports = `import { test, describe } from "node:test"; import { writeFileSync } from "node:fs";`;
  await writeFile(
    file,
    `${imports} const there = () => writeFileSync(${JSON.stringify(mark)}, String(process.pid));\n${code}`,
  );

  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const run = spawn(process.execPath, ["scripts/test.mjs", file], { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(run, "exit");
  try {
    let told = "";
    run.stderr.setEncoding("utf8").on("data", (text: string) => (told += text));
    await until(() => existsSync(mark));
    run.kill("SIGUSR2");
    return await until(() => /has not ended:\n[^]*\n$/.exec(told)?.[0]);
  } finally {
    run.kill();
    assert.deepEqual(await ended, [130, null]);
  }
}

describe("a test file that does not end", LINUX, () => {
  it("is told of with the test that it is in, what it waits for, and what it has started", async (t) => {
    const told = await whereIs(
      t,
      `import { createServer } from "node:http"; import { spawn } from "node:child_process";
      test("is over", () => {});
      describe("a suite", () => {
        test("waits for ever", async () => {
          const child = spawn("sleep", ["1000"]);
          process.on("exit", () => child.kill());
          process.on("SIGTERM", () => process.exit());
          createServer().listen(0, "127.0.0.1");
          setImmediate(there);
          await new Promise(() => {});
        });
      });`,
    );
    assert.match(told, /in the test or suite "a suite" of \S+\n\s+in the test or suite "waits for ever" of \S+\n/);
    assert.doesNotMatch(told, /is over/);
    assert.match(told, /it waits for: .*TCPServerWrap/);
    assert.match(told, /it listens at \{"address":"127\.0\.0\.1"/);
    assert.match(told, /it waits for the end of process \d+: sleep 1000\n/);
    const started = Number(/it has started process (\d+): sleep 1000\n/.exec(told)?.[1]);
    await until(() => !isAlive(started));
  });

  it("is told of with its stack when it is busy", async (t) => {
    const told = await whereIs(
      t,
      `test("spins", () => { there(); spinForEver(); });\nfunction spinForEver() { for (;;); }`,
    );
    assert.match(told, /it is busy:\n\s+at spinForEver \(file:\S+hanging\.test\.mjs:3:\d+\)\n/);
  });
});

describe("a run of the tests", () => {
  it("fails for a file that has not ended by its limit, and is not held up by it", LINUX, async (t) => {
    const { code, told } = await runOf(
      t,
      `test("has failed", () => { throw new Error("early"); }); setInterval(() => {}, 1000); process.on("SIGTERM", () => {});`,
      { BERTH_TEST_FILE_MS: "1000" },
    );
    assert.equal(code, 1);
    assert.match(told, /alone\.test\.mjs was ended: it had not ended by itself within 1 s\n/);
  });

  it("passes where all that is left is what newer versions of Node have compiled of npm", async (t) => {
    const { code, told } = await runOf(
      t,
      `import { mkdirSync } from "node:fs"; import { tmpdir } from "node:os";
      test("starts npm", () => mkdirSync(tmpdir() + "/node-compile-cache"));`,
    );
    assert.equal(code, 0, told);
  });

  it("passes while another run goes on with processes of the same project", LINUX, async (t) => {
    const folder = temporaryFolder(t);
    const [begun, beside] = [join(folder, "begun"), join(folder, "beside")];
    await writeFile(beside, "");
    const run = runOf(
      t,
      `import { watch, writeFileSync } from "node:fs"; import { once } from "node:events";
      test("lasts", async () => {
        const watching = watch(${JSON.stringify(beside)});
        writeFileSync(${JSON.stringify(begun)}, "");
        await once(watching, "change");
        watching.close();
      });`,
    );
    await until(() => existsSync(begun));
    // As a guest: without variables.
    const guest = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", resolve("dist")], { env: {} });
    t.after(() => guest.kill());
    await once(guest, "spawn");
    await writeFile(beside, "now");
    const { code, told } = await run;
    assert.equal(code, 0, told);
    assert.equal(guest.exitCode, null);
  });
});

async function runOf(t: TestContext, code: string, more: NodeJS.ProcessEnv = {}) {
  const folder = folderWith({ "alone.test.mjs": `import { test } from "node:test";\n${code}` }, t);
  return runTests(process.execPath, [join(folder, "alone.test.mjs")], more);
}
