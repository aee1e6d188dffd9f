import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { defaultLimits } from "../../src/limits/limits.ts";
import { openAgentToAnywhere } from "../../src/network/agent.ts";
import { ConfinedNpm } from "../../src/packages/confined-npm.ts";
import type { FoundNpm } from "../../src/packages/find-npm.ts";
import { NpmFailed } from "../../src/packages/npm-runs.ts";
import type { Confinement } from "../../src/processes/own-program.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { lower } from "../support/lowered-limits.ts";
import { registryOf } from "../support/registry.ts";
import { folderWith, serve, temporaryFolder } from "../support/suite.ts";

/** An npm that a hostile package has taken over: it does what `code` says. */
function autoApproved(code: string): FoundNpm {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "bin"));
  const cli = join(folder, "bin", "npm-cli.js");
  writeFileSync(join(folder, "package.json"), '{"name":"npm","version":"11.0.0"}');
  writeFileSync(
    cli,
    `const tell = (value) => {
      process.stderr.write("npm error code TOLD\\nnpm error " + JSON.stringify({ found: value }) + "\\n", () => process.exit(1));
    };
    const attempt = (act) => { try { return act() ?? "done"; } catch (error) { return error.code ?? error.name; } };
    ${code}`,
  );
  chmodSync(folder, 0o755);
  return { cli, version: "11.0.0", folder };
}

const bring = (npm: ConfinedNpm, code: string): Promise<void> =>
  npm.bring(autoApproved(code), [{ name: "a", version: "1.0.0", integrity: "" }], async () => {});

let restore = (): void => {};
after(() => restore());

async function openConfined(bounds: Record<string, number> = {}, confinement: Confinement = "sandboxed") {
  restore();
  restore = lower({ packageFetchMs: 120_000, ...bounds });
  const registry = await registryOf({ name: "a" });
  const folders = temporaryFolder();
  const npm = new ConfinedNpm({
    registry: { url: registry.url, token: "a-token-that-is-kept", tarballOrigins: [] },
    confinement,
    start: spawnDirectly,
    makeFolder: (prefix) => mkdtempSync(join(folders, prefix)),
    dispatcher: openAgentToAnywhere(),
    limits: defaultLimits,
  });
  after(() => npm.close());
  return { npm, registry };
}

/** Runs code where npm runs, and resolves with what it found out. */
async function told(code: string, confinement?: Confinement): Promise<unknown> {
  const { npm } = await openConfined({}, confinement);
  const error: unknown = await bring(npm, code).catch((error: unknown) => error);
  assert.ok(error instanceof NpmFailed, String(error));
  assert.equal(error.code, "TOLD");
  return (JSON.parse(error.message) as { found: unknown }).found;
}

const skip = process.platform === "linux" ? false : "the sandbox is Linux's";

describe("an npm that a package has taken over, in the sandbox,", { skip }, () => {
  test("reads no file of the host", async () => {
    const secret = join(temporaryFolder(), "key");
    writeFileSync(secret, "a secret");
    chmodSync(secret, 0o644);
    const files = [secret, "/etc/passwd", "/root/.npmrc", "/home", "/proc/1/environ", `/proc/${process.pid}/environ`];
    const code = `const { readFileSync } = require("node:fs");
      tell(${JSON.stringify(files)}.map((file) => attempt(() => readFileSync(file, "utf8").slice(0, 20))));`;
    const found = (await told(code)) as string[];
    assert.deepEqual(new Set(found), new Set(["ENOENT"]));
  });

  test("finds no git and no shell", async () => {
    const code = `const { spawnSync } = require("node:child_process");
      tell(["git", "sh", "/bin/sh", "/usr/bin/git"].map((file) => spawnSync(file, ["--version"]).error?.code));`;
    assert.deepEqual(await told(code), ["ENOENT", "ENOENT", "ENOENT", "ENOENT"]);
  });

  test("reaches nothing but the relay, whatever it connects to", async () => {
    let connections = 0;
    const url = await serve({ after }, (_request, response) => {
      connections += 1;
      response.end();
    });
    const code = `const http = require("node:http");
      http.get("${url}/-/whoami", (response) => tell(response.statusCode));`;
    const { npm, registry } = await openConfined();
    await assert.rejects(bring(npm, code), /npm asked for "\/-\/whoami"/);
    assert.equal(connections, 0);
    assert.deepEqual(registry.requests, []);
    const around = `const socket = require("node:dgram").createSocket("udp4");
      socket.on("error", (error) => tell(error.code));
      socket.send("x", 53, "127.0.0.1", (error) => tell(error?.code ?? "sent"));`;
    assert.match((await told(around)) as string, /^E/);
  });

  test("writes to no folder but its own, and not more than that holds", async () => {
    const code = `const { writeFileSync } = require("node:fs");
      const places = ["/x", "/etc/x", __dirname + "/x", "/sbx/registry/x", "/sbx/x"];
      tell(places.map((place) => attempt(() => writeFileSync(place, "x"))));`;
    for (const how of (await told(code)) as string[]) assert.match(how, /^(?:EROFS|ENOENT|EACCES)$/);
    const { npm } = await openConfined({ packageFetchFolderMb: 8 });
    const filling = `const { appendFileSync } = require("node:fs");
      try { for (;;) appendFileSync(process.env.TMPDIR + "/x", Buffer.alloc(1024 * 1024)); }
      catch (error) { process.stderr.write("npm error code " + error.code + "\\n", () => process.exit(1)); }`;
    await assert.rejects(bring(npm, filling), /more than 8 MB for its files/);
  });

  test("is ended where it makes files without end", async () => {
    const { npm } = await openConfined();
    const filling = `const { openSync, closeSync } = require("node:fs");
      for (let n = 0; n < 80_000; n++) closeSync(openSync(process.env.TMPDIR + "/" + n, "w"));
      setInterval(() => {}, 1_000);`;
    await assert.rejects(bring(npm, filling), /npm wrote more than 50000 files/);
  });

  test("is ended where it takes too much memory or time", async () => {
    const { npm } = await openConfined({ packageFetchMemoryMb: 64 });
    const growing = `const all = []; for (;;) all.push(new Array(1e5).fill(all.length));`;
    await assert.rejects(bring(npm, growing), /more than 64 MB of memory|npm failed/);
    const slow = (await openConfined({ packageFetchMs: 3_000 })).npm;
    await assert.rejects(bring(slow, "for (;;);"), /more than 3000 ms/);
  });

  test("brings nothing that is not wanted, and no file without an end", async () => {
    const { npm } = await openConfined({ packageBytes: 1024 * 1024 });
    const code = `const { truncateSync, writeFileSync } = require("node:fs");
      const out = process.argv.find((each) => each.startsWith("--pack-destination=")).split("=")[1];
      writeFileSync(out + "/a.tgz", ""); truncateSync(out + "/a.tgz", 2 * 1024 * 1024);`;
    await assert.rejects(bring(npm, code), /broke its protocol.*more than 1048576/);
  });

  test("ends when Berth does", async () => {
    const { npm } = await openConfined();
    const work = bring(npm, "setInterval(() => {}, 1000);");
    work.catch(() => {});
    await npm.close();
    await assert.rejects(work, /shutting down/);
  });
});

for (const mode of ["sandboxed", "trusted"] as const) {
  test(`npm has no credentials in its variables, its arguments and its home, ${mode}`, async (t) => {
    const home = folderWith({ ".npmrc": "//registry.npmjs.org/:_authToken=a-token-that-is-kept\n" });
    const { HOME } = process.env;
    Object.assign(process.env, { HOME: home, BERTH_TEST_SECRET: "a-token-that-is-kept" });
    t.after(() => {
      process.env["HOME"] = HOME;
      delete process.env["BERTH_TEST_SECRET"];
    });
    const code = `const { readdirSync } = require("node:fs");
      const isTold = JSON.stringify([process.env, process.argv]).includes("a-token-that-is-kept");
      tell([Object.keys(process.env).filter((name) => name !== "PWD").sort(), readdirSync(process.env.HOME), isTold]);`;
    assert.deepEqual(await told(code, mode), [["HOME", "PATH", "TMPDIR"], [], false]);
  });
}

test("an npm that a package has taken over cannot return more values than any set has", async () => {
  const line = {
    version: "1.0.0",
    resolved: "https://registry.npmjs.org/a/-/a-1.0.0.tgz",
    integrity: `sha512-${"a".repeat(86)}==`,
  };
  const code = `const needs = Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => ["need-" + at, "1"]));
    const a = { ...${JSON.stringify(line)}, optionalDependencies: needs };
    const packages = { "": { dependencies: { a: "1" } }, "node_modules/a": a };
    require("node:fs").writeFileSync("package-lock.json", JSON.stringify({ lockfileVersion: 3, packages }));`;
  const { npm } = await openConfined({}, "trusted");
  await assert.rejects(npm.resolve(autoApproved(code), { dependencies: { a: "1" } }), /has too many values/);
});
