import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { packageRoot } from "../../src/config.ts";
import { call } from "../support/berth.ts";
import { asNobody, ordinaryEnvironment } from "../support/masked-proc.ts";
import { temporaryFolder } from "../support/suite.ts";

/** A read-only view of this installation at another path, for one program. */
const MOUNT = 'mount --bind "$1" "$2"; mount -o remount,ro,bind "$2"; shift 2; exec "$@"';

const skip = process.getuid?.() === 0 ? false : "needs root, to start programs as another user";

describe("an ordinary user with a read-only installation, in paths with spaces", { skip }, () => {
  const base = temporaryFolder({ after });
  const install = join(base, "opt", "Berth for all");
  const env = ordinaryEnvironment({ after });
  const home = env["HOME"]!;
  const folder = join(home, "my servers");
  const data = join(home, "my data");

  before(() => {
    chmodSync(base, 0o755);
    mkdirSync(install, { recursive: true });
  });

  const mount = ["--mount", "sh", "-euc", MOUNT, "sh", packageRoot, install];
  const program = [process.execPath, join(install, "dist/bin/berth.cjs")];
  const command = (...args: readonly string[]): readonly string[] => [...mount, ...asNobody(), ...program, ...args];
  const berth = (...args: readonly string[]): Promise<{ stdout: string; stderr: string }> =>
    promisify(execFile)("unshare", command(...args), { env, cwd: home });

  /** Serves until the test ends. */
  async function serve(
    t: { after(end: () => unknown): void },
    ...args: readonly string[]
  ): Promise<{ url: string; pid: number }> {
    const served = spawn("unshare", command("serve", ...args, "--port", "0"), {
      cwd: home,
      env: { ...env, BERTH_GUESTS: "sandboxed" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const exited = new Promise((resolve) => served.once("exit", resolve));
    t.after(() => (served.kill(), exited));
    let log = "";
    for await (const line of createInterface({ input: served.stderr })) {
      log += `${line}\n`;
      const url = /serves (http:\/\/[\d.:]+)/.exec(line)?.[1] ?? /(http:\/\/127[\d.:]+)\/mcp/.exec(line)?.[1];
      if (url !== undefined) {
        served.stderr.resume();
        return { url, pid: served.pid! };
      }
    }
    throw new Error(log);
  }

  it("finds nothing wrong with berth doctor", async () => {
    const { stdout } = await berth("doctor", "--json", "--data", data);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; status: string; message: string }[] };
    const wrong = findings.filter(({ check, status }) => status !== "pass" && check !== "Node.js");
    assert.deepEqual(wrong, []);
    assert.match(JSON.stringify(findings), /a guest and a script ran in the complete sandbox/);
  });

  it("creates, checks and serves a folder, with functions and shell scripts", async (t) => {
    await berth("init", folder);
    writeFileSync(join(folder, "who.sh"), "#!/bin/sh\n# @description Says who runs this.\nid -u\n");
    chownSync(join(folder, "who.sh"), 65_534, 65_534);
    const list = join(folder, "mcps.json");
    const servers = JSON.parse(readFileSync(list, "utf8"));
    writeFileSync(list, JSON.stringify({ ...servers, who: { definition: "who.sh" } }));
    await berth("check", folder);
    const { url, pid } = await serve(t, folder);
    assert.match(readFileSync(`/proc/${pid}/status`, "utf8"), /^Uid:\t65534\t65534/m);
    const greeted = await call(`${url}/mcp/hello`, "greet", { name: "Ada" });
    assert.match(JSON.stringify(greeted.content), /Hello, Ada!/);
    const { content } = await call(`${url}/mcp/who`, "who", {});
    assert.match(JSON.stringify(content), /65534/);
  });

  it("serves the reference servers, and backs up the store", async (t) => {
    const { url } = await serve(t, "--data", data);
    const echoed = await call(`${url}/mcp/echo`, "echo", { message: "read-only" });
    assert.deepEqual(echoed.content, [{ type: "text", text: "read-only" }]);
    const backup = join(home, "a backup.sqlite");
    await berth("backup", backup, "--data", data);
    assert.equal(statSync(backup).uid, 65_534);
    assert.ok(existsSync(join(data, "berth.sqlite")));
  });
});
