import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { cli, exits } from "../support/commands.ts";
import { berthInProcess as runBerth } from "../support/in-process.ts";
import { asker, OUTCOMES } from "../support/outcomes.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite, temporaryFolder } from "../support/suite.ts";

/** Runs `berth …` as at a terminal, with `input` typed ahead. */
const atTerminal = (args: readonly string[], input: string) => runBerth(args, { input, isTerminal: true });

describe("questions at a command", () => {
  const berth = berthInSuite(OUTCOMES);

  /** A tool of each kind, as an upstream sees it: directly, and hosted. */
  const tools = (name: string): [string, string][] => {
    const hosted = (server: string): string => `mcp+${berth.url}/mcp/${server}?tool=${name}`;
    return [
      ["an upstream", `${asker}?tool=${name}`],
      ["a hosted upstream", hosted("asker")],
      ["a hosted function", hosted("functions")],
      ["a hosted script", hosted(name)],
    ];
  };

  it("berth cat asks the person at the terminal twice in a row, and writes the result (P4)", async () => {
    for (const [kind, reference] of tools("deploy")) {
      const { stdout: shown, code } = await atTerminal(["cat", reference], "moon\n2\nyes\n");
      assert.match(shown, /Which stage\?\n {2}1\. dev\n {2}2\. prod\n/, kind);
      assert.match(shown, /Please answer: a number from 1 to 2\./, kind);
      assert.match(shown, /Really\?\n\(y\/n\): /, kind);
      assert.match(shown, /"text":"deployed to prod: true"/, kind);
      assert.equal(code, 0, kind);
    }
  });

  it("an empty line takes the default that is shown, and the end of input cancels (P4)", async () => {
    for (const [kind, reference] of tools("preset")) {
      const { stdout: shown } = await atTerminal(["cat", reference], "\n\n");
      assert.match(shown, /\[dev\]: /, kind);
      assert.match(shown, /"text":"deployed to dev: true"/, kind);
    }
    // A real terminal, where Ctrl-D ends the input.
    const python = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    const args = ["-c", python, process.execPath, cli, "cat", `${asker}?tool=deploy`];
    const { code, shown } = await new Promise<{ code: unknown; shown: string }>((resolve) => {
      const child = execFile("python3", args, (error, stdout) => resolve({ code: error?.code, shown: stdout }));
      child.stdin!.write("1\n\u0004");
    });
    assert.match(
      shown,
      /"code":"needs_input","message":"The tool \\"deploy\\" stopped: the user cancelled the question \\"sure\\"\."/,
    );
    assert.equal(code, 5);
  });

  it("questions of both kinds are asked in one call (P4)", async () => {
    const { stdout: shown } = await atTerminal(["cat", `${asker}?tool=mixed`], "prod\nAda\ny\nAda\n");
    assert.match(shown, /"text":"prod Ada true"/);
  });

  it("without a terminal the default is the answer, and what has none is an error that says what is needed (P4)", async () => {
    for (const [kind, reference] of tools("preset")) {
      const ran = await runBerth(["cat", reference]);
      assert.equal(ran.records[0].text, "deployed to dev: true", kind);
    }
    for (const [kind, reference] of tools("deploy")) {
      const ran = await runBerth(["cat", reference]);
      assert.equal(ran.code, 5, kind);
      assert.equal(ran.stdout, "", kind);
      assert.match(ran.errors[0].message, /needs an answer.*"stage": one of "dev", "prod"/, kind);
    }
    const put = await runBerth(["put", `${asker}?tool=preset`], { input: "{}\n{}\n" });
    assert.deepEqual(rows(put.records, "record", "text"), ["1 deployed to dev: true", "2 deployed to dev: true"]);
  });

  it("berth call asks at the terminal, and takes defaults without one (P4)", async () => {
    for (const server of ["functions", "deploy", "asker"]) {
      const { stdout: shown, code } = await atTerminal(["call", "--url", berth.url, `${server}.deploy`], "prod\ny\n");
      assert.match(shown, /: deployed to prod: true\n/, server);
      assert.equal(code, 0, server);
    }
    for (const server of ["functions", "preset", "asker"]) {
      const { stdout } = await runBerth(["call", "--url", berth.url, `${server}.preset`]);
      assert.equal(stdout, "deployed to dev: true\n", server);
    }
    const asked = await exits(1, runBerth(["call", "--url", berth.url, "functions.deploy"]));
    assert.match(asked.stderr, /call it again with --answers/);
  });

  it("berth cat tries again what is transient, and nothing else (P5)", async () => {
    const env = { BERTH_RETRY_MS: "5" };
    const args = (value: object): string => `args=${encodeURIComponent(JSON.stringify(value))}`;
    const flaky = await runBerth(["cat", `${asker}?tool=flaky&${args({ key: "x", times: 2 })}`], { env });
    assert.equal(flaky.records[0].text, "worked at call 3");
    const broken = await runBerth(["cat", `${asker}?tool=broken&${args({ key: "x", times: 2 })}`], { env });
    assert.deepEqual([broken.code, broken.errors[0].message], [5, "broken at call 1\n  inner"]);
    const never = await runBerth(["cat", `${asker}?tool=flaky&${args({ key: "x", times: 9 })}`], { env });
    assert.deepEqual([never.code, never.errors[0].transient], [5, true]);
  });

  it("a profile's options reach its tool (P6)", async (t) => {
    const folder = temporaryFolder(t);
    const profile = join(folder, ".berth", "profiles", "mcp", "asking");
    await mkdir(profile, { recursive: true });
    await writeFile(join(profile, "_meta.json"), JSON.stringify({ uri: asker }));
    await writeFile(join(profile, "context.json"), JSON.stringify({ tool: "told", options: { depth: 3 } }));
    const { records } = await runBerth(["cat", "@asking/context"], { cwd: folder, env: { HOME: folder } });
    const { meta } = JSON.parse(records[0].text);
    assert.deepEqual(meta["computer.jp/tool"], { name: "told", arguments: {}, options: { depth: 3 } });
    assert.deepEqual(meta["computer.jp/context"], { action: "run" });
    const plain = await runBerth(["cat", `${asker}?tool=told`]);
    assert.deepEqual(Object.keys(JSON.parse(plain.records[0].text).meta), ["progressToken"]);
  });

  it("help and documentation call the envelope transitional (P7)", async () => {
    for (const command of ["cat", "call"]) {
      assert.match((await runBerth([command, "--help"])).stdout, /envelope.* transitional/, command);
    }
    const page = await readFile(join(packageRoot, "docs", "outcomes.md"), "utf8");
    assert.match(page, /> \[!IMPORTANT\]\n> \*\*Transitional\.\*\*/);
  });

  it("--raw writes the result as the server gave it, envelope and all (P1)", async () => {
    const raw = await runBerth(["cat", "--raw", `${asker}?tool=preset`]);
    assert.match(raw.records[0].content[0].text, /^\{"type":"success"/);
  });
});
