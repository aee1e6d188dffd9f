import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { cli, exits, type Ran } from "../../support/commands.ts";
import { berthInProcess } from "../../support/in-process.ts";
import { withStore } from "../../support/store.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const VALUE = "correct horse battery staple";

describe("berth secret", () => {
  const data = join(temporaryFolder(), "data");

  const berth = (args: readonly string[], input = ""): Promise<Ran> =>
    berthInProcess(["secret", ...args], { input, env: { BERTH_DATA: data } });

  it("takes a value from standard input, lists its name, and never shows the value", async () => {
    const set = await exits(0, berth(["set", "API_TOKEN"], `${VALUE}\n`));
    assert.match(set.stderr, /The secret API_TOKEN of the tenant default is set/);
    const nobodys = await berth(["set", "API_TOKEN", "--tenant", "acme"], VALUE);
    assert.deepEqual([nobodys.code, nobodys.stderr.includes("berth tenant create acme")], [2, true]);
    await withStore(data, (store) => store.tenants.create("acme", { by: "test" }));
    const other = await exits(0, berth(["set", "API_TOKEN", "--tenant", "acme"], VALUE));
    const listed = await berth(["list"]);
    assert.match(listed.stdout, /^API_TOKEN {2}\d{4}-.*Z by command {2}for no server\n$/);
    const json = await berth(["list", "--tenant", "acme", "--json"]);
    const [only] = JSON.parse(json.stdout);
    assert.deepEqual([only.name, only.isSet, only.by, only.servers], ["API_TOKEN", true, "command", []]);
    for (const { stdout, stderr } of [set, other, listed, json]) assert.ok(!`${stdout}${stderr}`.includes(VALUE));
    for (const file of readdirSync(data)) assert.ok(!readFileSync(join(data, file)).includes(VALUE), file);
  });

  it("refuses a value on its command line, where every user of the machine could read it", async () => {
    const { code, stderr } = await berth(["set", "API_TOKEN", VALUE], "another value");
    assert.notEqual(code, 0);
    assert.match(stderr, /too many arguments/);
  });

  it("reports an invalid name or value without showing the value", async () => {
    const named = await exits(2, berth(["set", "API-TOKEN"], VALUE));
    assert.match(named.stderr, /"API-TOKEN" cannot be its name/);
    const short = await exits(2, berth(["set", "PIN"], "1234"));
    assert.match(short.stderr, /fewer than 6 characters/);
    assert.doesNotMatch(short.stderr, /1234/);
  });

  it("rotates the key, and deletes", async () => {
    const rotated = await exits(0, berth(["rotate"]));
    assert.match(rotated.stderr, /2 secrets are now sealed with the key [0-9a-f]{16}/);
    assert.equal((await berth(["delete", "API_TOKEN"])).code, 0);
    const again = await exits(2, berth(["delete", "API_TOKEN"]));
    assert.match(again.stderr, /No such secret: "API_TOKEN"/);
    assert.equal((await berth(["list"])).stdout, "");
  });

  it("does not echo what is typed at a terminal", async () => {
    const shown = await atTerminal(["set", "TYPED"], data, ["wrong\u007f\u007f\u007f\u007f\u007f", VALUE, "\r"]);
    assert.match(shown, /Value of TYPED: \r\n/);
    assert.match(shown, /is set/);
    for (const part of ["wrong", "horse"]) assert.ok(!shown.includes(part), shown);
    const given = await atTerminal(["set", "GIVEN_UP"], data, ["correct", "\u0003"]);
    assert.match(given, /Nothing was set/);
    assert.doesNotMatch((await berth(["list"])).stdout, /GIVEN_UP/);
  });
});

/** Runs `berth secret …` on a pseudo-terminal, types when it is asked, and returns all output. */
function atTerminal(args: readonly string[], data: string, keys: readonly string[]): Promise<string> {
  const python = "import pty, sys; pty.spawn(sys.argv[1:])";
  const env = { ...process.env, BERTH_DATA: data };
  return new Promise((resolve, reject) => {
    const child = spawn("python3", ["-c", python, process.execPath, cli, "secret", ...args], { env });
    let shown = "";
    let answered = false;
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      shown += chunk;
      if (answered || !shown.includes("Value of")) return;
      answered = true;
      for (const key of keys) child.stdin.write(key);
    });
    child.once("error", reject);
    child.once("close", () => resolve(shown));
  });
}
