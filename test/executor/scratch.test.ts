import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { GuestExecutor } from "../../src/executor/guest-executor.ts";
import { trustedLauncher } from "../../src/executor/launcher.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { measureFolder } from "../../src/processes/folder-use.ts";
import { failureOf, programWith, shape, useRig, valueOf } from "../support/executor.ts";
import { GUESTS } from "../support/guests.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const CODE = `
import fs from "node:fs";
import { mkdtemp, readFile, writeFile, rename, stat, readdir, rm, appendFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip, gunzipSync } from "node:zlib";
import os from "node:os";
import path from "node:path";

/** The usual work of packages with temporary files. */
export async function work() {
  const folder = await mkdtemp(path.join(os.tmpdir(), "work-"));
  const file = path.join(folder, "a.txt");
  await writeFile(file, "one");
  await appendFile(file, " two");
  await pipeline(fs.createReadStream(file), createGzip(), fs.createWriteStream(file + ".gz"));
  await rename(file, path.join(folder, "b.txt"));
  fs.mkdirSync(path.join(folder, "x/y"), { recursive: true });
  fs.copyFileSync(path.join(folder, "b.txt"), path.join(folder, "x/y/c.txt"));
  const listed = (await readdir(folder)).sort();
  const text = gunzipSync(await readFile(file + ".gz")).toString();
  const { size } = await stat(path.join(folder, "x/y/c.txt"));
  await rm(folder, { recursive: true });
  return { listed, text, size, left: fs.existsSync(folder), missing: fs.existsSync(os.tmpdir() + "/missing") };
}
export function places() { return [os.tmpdir(), os.homedir(), process.cwd(), process.env.HOME, process.env.TMPDIR]; }
export function codeOf(name) { try { return fs.readFileSync(name, "utf8"); } catch (error) { return error.code; } }
export async function open(name) { return (await readFile(name)).length; }
export function write(name, text) { fs.writeFileSync(name, text); }
export async function fill() {
  for (let n = 0; n < 64; n++) {
    fs.writeFileSync("f" + n, Buffer.alloc(1024 * 1024, n));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
export function again() { for (const name of fs.readdirSync(".")) fs.rmSync(name); fs.writeFileSync("small", "x"); return "again"; }
export function listed() { return fs.readdirSync("."); }
export function env(name) { return process.env[name] ?? null; }
`;

const mode = GUESTS;

describe(`the scratch folder of a ${mode} guest`, () => {
  const rig = useRig(mode, { guestDiskMb: 8 });

  it("supports how packages use temporary files", async () => {
    assert.deepEqual(await rig.value(shape("work"), {}, { program: programWith(CODE) }), {
      listed: ["a.txt.gz", "b.txt", "x"],
      text: "one two",
      size: 7,
      left: false,
      missing: false,
    });
  });

  it("is its place for temporary files, its home and its working folder", async () => {
    const program = programWith(CODE);
    const places = (await rig.value(shape("places"), {}, { program })) as string[];
    assert.equal(new Set(places).size, 1);
    const codeOf = (name: string) => rig.value(shape("codeOf", ["name"]), { name }, { program });
    assert.equal(await codeOf("missing"), "ENOENT");
    assert.equal(await codeOf(join(places[0]!, "missing")), "ENOENT");
    for (const name of ["/bundle/index.mjs", "/bundle/package.json", "/etc/hosts"]) {
      assert.match(JSON.stringify(await codeOf(name)), /^"(ENOENT|ERR_ACCESS_DENIED)"$/, name);
    }
  });

  it("is named in the error of a file that is not in it, with the import to write instead", async () => {
    const opened = await rig.call(shape("open", ["name"]), { name: "./data/x.csv" }, { program: programWith(CODE) });
    assert.match(failureOf(opened).message, /empty scratch folder\..* write import data from "\.\/data\/x\.csv";/);
  });

  it("refuses more or ends the guest when it is full, and can be used again", async () => {
    const program = programWith(CODE);
    const { reason, message } = failureOf(await rig.call(shape("fill"), {}, { program }));
    assert.match(
      `${reason}: ${message}`,
      /os.tmpdir\(\)\) is full \(BERTH_GUEST_DISK_MB\)|memory: it wrote more than 8 MB to its scratch folder/,
    );
    assert.equal(await rig.value(shape("again"), {}, { program }), "again");
  });

  it("is empty once the program is loaded", async () => {
    assert.deepEqual(await rig.value(shape("listed"), {}, { program: programWith(CODE) }), []);
  });

  it("is another one for each process of a program", async () => {
    const program = programWith(CODE);
    const writes = shape("write", ["name", "text"]);
    await rig.call(writes, { name: "mine", text: "mine" }, { program });
    const codeOf = (realm: string) =>
      rig.value(shape("codeOf", ["name"]), { name: "mine" }, { program: { ...program, realm } });
    assert.equal(await codeOf("other"), "ENOENT");
    assert.equal(await rig.value(shape("codeOf", ["name"]), { name: "mine" }, { program }), "mine");
  });

  it("works with an environment that is set inside the sandbox", async () => {
    const program = { ...programWith(CODE), env: async () => ({ A_NAME: "a value", TZ: "Europe/Oslo" }) };
    assert.equal(await rig.value(shape("env", ["name"]), { name: "A_NAME" }, { program }), "a value");
    assert.equal(await rig.value(shape("env", ["name"]), { name: "TZ" }, { program }), "Europe/Oslo");
  });

  if (mode === "trusted") return;

  it("reports a bundle that does not fit", async () => {
    const program = programWith(`${CODE}//${"x".repeat(9 * 1024 * 1024)}`);
    const { reason, message } = failureOf(await rig.call(shape("places"), {}, { program }));
    assert.match(
      `${reason}: ${message}`,
      /^load: .*The scratch folder \(os.tmpdir\(\)\) is full \(BERTH_GUEST_DISK_MB\)/,
    );
  });
});

describe("the scratch folders of trusted guests", () => {
  const node = { file: process.execPath, major: Number(process.versions.node.split(".")[0]) };
  const limits = { ...defaultLimits, guestSpareProcesses: 1, guestDiskMb: 1 };

  it("are gone when their processes are, and all of them when the executor is closed", async (t) => {
    const parent = temporaryFolder(t);
    let made = 0;
    const makeFolder = (prefix: string): string => {
      const folder = join(parent, `${prefix}${++made}`);
      mkdirSync(folder);
      return folder;
    };
    const executor = new GuestExecutor(trustedLauncher(node, limits), { limits, makeFolder });
    try {
      const program = programWith(CODE);
      const run = (name: string) => executor.call(program, { shape: shape(name), args: {}, deadlineMs: 60_000 });
      const [first] = valueOf(await run("places")) as string[];
      assert.ok(existsSync(first!));
      const { message } = failureOf(await run("fill"));
      assert.match(message, /more than 1 MB to its scratch folder \(BERTH_GUEST_DISK_MB\)/);
      await until(() => !existsSync(first!), "its folder is removed");
      const [second] = valueOf(await run("places")) as string[];
      assert.notEqual(second, first);
    } finally {
      await executor.close();
      assert.deepEqual(readdirSync(parent), []);
    }
  });

  it("that cannot be made fail the call, and not the service", async (t) => {
    const makeFolder = (): string => {
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    };
    const executor = new GuestExecutor(trustedLauncher(node, limits), {
      limits: { ...limits, guestSpareProcesses: 0 },
      makeFolder,
    });
    t.after(() => executor.close());
    const call = { shape: shape("places"), args: {}, deadlineMs: 60_000 };
    const { message, retriable } = failureOf(await executor.call(programWith(CODE), call));
    assert.match(message, /could not be started \(ENOSPC\)/);
    assert.equal(retriable, true);
  });

  it("are not counted further than their limits", async (t) => {
    const folder = temporaryFolder(t);
    for (let n = 0; n < 50; n++) mkdirSync(join(folder, `${n}`));
    assert.equal((await measureFolder(folder, { files: 10, megabytes: 1 })).files, 11);
    assert.equal((await measureFolder(folder, { files: 100, megabytes: 1 })).files, 50);
    assert.deepEqual(await measureFolder(join(folder, "missing"), { files: 1, megabytes: 1 }), {
      files: 0,
      megabytes: 0,
    });
  });
});
