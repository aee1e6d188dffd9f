import assert from "node:assert/strict";
import { chmod, link, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import type { GuestProgram, ScriptOutcome } from "../../src/executor/executor.ts";
import type { HostFolder } from "../../src/folders/folders.ts";
import type { Json } from "../../src/lib/json.ts";
import { failureOf, programWith, scriptRun, shape, useRig, valueOf } from "../support/executor.ts";
import { GUESTS } from "../support/guests.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const CODE = `
import fs from "node:fs";
import { readFile, writeFile, readdir } from "node:fs/promises";
import path from "node:path";
const atLoad = process.env.BERTH_FOLDER_docs;
export const where = (context) => [context.folders, atLoad];
export const read = (name) => readFile(name, "utf8");
export const list = (name) => readdir(name).then((names) => names.sort());
export const trees = async (name) => {
  const options = { recursive: true };
  const byCallback = await new Promise((resolve, reject) =>
    fs.readdir(name, options, (error, names) => (error ? reject(error) : resolve(names))));
  return [await readdir(name, options), fs.readdirSync(name, options), byCallback].map((names) => names.sort());
};
export const write = (name, text) => writeFile(name, text);
`;

/** The ways to read a place, and to bring it to where it can be read; each as the text that comes of it. */
const READING = `
import fs from "node:fs";
import path from "node:path";
const all = async (items) => { const found = []; for await (const each of items) found.push(each); return found; };
const text = (value) => typeof value === "string" ? value : Buffer.isBuffer(value) ? String(value) : JSON.stringify(value);
export async function ways(written) {
  const [folder, name] = [path.dirname(written), path.basename(written)];
  const mine = (file) => path.join(process.cwd(), file);
  const looksLikeUrl = { href: "file://" + written, protocol: "file:", pathname: written, hostname: "", search: "", hash: "" };
  const ways = {
    relative: () => fs.readFileSync(path.relative(process.cwd(), "/") + written, "utf8"),
    bytes: () => fs.readFileSync(Buffer.from(written), "utf8"),
    url: () => fs.readFileSync(new URL("file://" + written), "utf8"),
    looksLikeUrl: () => fs.readFileSync(looksLikeUrl, "utf8"),
    doubled: () => fs.readFileSync(written.replaceAll("/", "//./"), "utf8"),
    promised: () => fs.promises.readFile(written, "utf8"),
    called: () => new Promise((resolve, reject) => fs.readFile(written, "utf8", (error, found) => error ? reject(error) : resolve(found))),
    opened: async () => { const file = await fs.promises.open(written); try { return await file.readFile("utf8"); } finally { await file.close(); } },
    streamed: () => all(fs.createReadStream(written, "utf8")),
    stream: () => all(new fs.ReadStream(written, { encoding: "utf8" })),
    blob: async () => (await fs.openAsBlob(written)).text(),
    listed: () => fs.readdirSync(folder),
    listedTree: () => fs.readdirSync(folder, { recursive: true }),
    listedSlash: () => fs.readdirSync(folder + "/"),
    listedTyped: () => fs.promises.readdir(folder, { withFileTypes: true }),
    openedFolder: async () => all(await fs.promises.opendir(folder)),
    openedSync: () => { const opened = fs.opendirSync(folder); try { return opened.readSync().name; } finally { opened.closeSync(); } },
    globbed: () => fs.globSync(written),
    globbedWithin: () => fs.globSync("*", { cwd: folder }),
    globbedLater: () => all(fs.promises.glob(folder + "/*")),
    exists: () => fs.existsSync(written) && "it exists: secret.txt",
    existsCalled: async () => await new Promise((resolve) => fs.exists(written, resolve)) && "it exists: secret.txt",
    real: () => fs.realpathSync(written),
    realNative: () => fs.realpathSync.native(written),
    realPromised: () => fs.promises.realpath(written),
    sized: () => "size " + fs.statSync(written).size,
    copied: () => { fs.copyFileSync(written, mine("c1")); return fs.readFileSync(mine("c1"), "utf8"); },
    copiedTree: () => { fs.cpSync(folder, mine("c2"), { recursive: true, dereference: true }); return fs.readFileSync(mine("c2/" + name), "utf8"); },
    copiedLater: async () => { await fs.promises.cp(folder, mine("c3"), { recursive: true }); return fs.readFileSync(mine("c3/" + name), "utf8"); },
    linked: () => { fs.linkSync(written, mine("c4")); return fs.readFileSync(mine("c4"), "utf8"); },
    symlinked: () => { fs.symlinkSync(written, mine("c5")); return fs.readFileSync(mine("c5"), "utf8"); },
    renamed: () => { fs.renameSync(written, mine("c6")); return fs.readFileSync(mine("c6"), "utf8"); },
    imported: async () => (await import(new URL("file://" + written))).default,
  };
  const said = {};
  for (const [way, go] of Object.entries(ways)) {
    try { said[way] = "worked: " + text(await go()); } catch (error) { said[way] = error.code + " " + error.message; }
  }
  return said;
}
export async function bring(from, to, how) {
  const mine = path.join(process.cwd(), to);
  try {
    if (how === "rename") fs.renameSync(from, mine); else fs.cpSync(from, mine, { recursive: true, ...how });
    return fs.readFileSync(mine, "utf8");
  } catch (error) { return error.code + " " + error.message; }
}
export async function put(written) {
  const ways = {
    write: () => fs.writeFileSync(written, "hostile"),
    rename: () => { fs.writeFileSync("r", "hostile"); fs.renameSync("r", written); },
    copy: () => { fs.writeFileSync("k", "hostile"); fs.copyFileSync("k", written); },
    tree: () => fs.cpSync("k", written),
    link: () => fs.linkSync("k", written),
    symlink: () => fs.symlinkSync("k", written),
    make: () => fs.mkdirSync(written, { recursive: true }),
    temporary: () => fs.mkdtempSync(written),
    stream: () => new Promise((resolve, reject) => fs.createWriteStream(written).on("error", reject).end("hostile", resolve)),
    remove: () => fs.rmSync(written),
    truncate: () => fs.truncateSync(written),
    times: () => fs.utimesSync(written, 0, 0),
  };
  const worked = [];
  for (const [way, go] of Object.entries(ways)) try { await go(); worked.push(way); } catch {}
  return worked;
}
`;

const SECRET = "what stands outside of the folder";

const mode = GUESTS;

describe(`the folders of a ${mode} guest`, () => {
  const rig = useRig(mode);
  const home = temporaryFolder();
  let given: HostFolder[];
  let program: GuestProgram;
  before(async () => {
    // Root's guests are nobody.
    await chmod(home, 0o755);
    for (const name of ["docs/deep", "docs-secret", "out", "other"]) {
      await mkdir(join(home, name), { recursive: true });
      await chmod(join(home, name), 0o777);
    }
    await writeFile(join(home, "docs/a.txt"), "first");
    await writeFile(join(home, "docs/deep/b.txt"), "second");
    for (const name of ["secret.txt", "docs-secret/secret.txt", "other/secret.txt"]) {
      await writeFile(join(home, name), SECRET);
    }
    given = [
      { name: "docs", path: join(home, "docs"), writable: false },
      { name: "out", path: join(home, "out"), writable: true },
    ];
    program = { ...programWith(CODE), folders: given };
  });

  const value = (name: string, args: Record<string, Json> = {}): Promise<Json> =>
    rig.value(shape(name, Object.keys(args)), args, { program });
  const message = async (name: string, args: Record<string, Json>): Promise<string> =>
    failureOf(await rig.call(shape(name, Object.keys(args)), args, { program })).message;
  const place = (folder: "docs" | "out", name = ""): string =>
    join(mode === "sandboxed" ? `/folders/${folder}` : join(home, folder), name);

  it("are in its context and, when it loads, in its environment", async () => {
    const where = shape("where", [], { context: true });
    assert.deepEqual(await rig.value(where, {}, { program }), [
      { docs: place("docs"), out: place("out") },
      place("docs"),
    ]);
    const none = { ...program, bundle: "none", folders: [] };
    assert.deepEqual(await rig.value(where, {}, { program: none }), [{}, null]);
  });

  it("are read, and written where they are writable", async () => {
    assert.equal(await value("read", { name: place("docs", "a.txt") }), "first");
    assert.deepEqual(await value("list", { name: place("docs") }), ["a.txt", "deep"]);
    assert.equal(await value("read", { name: place("docs", "deep/b.txt") }), "second");
    const tree = ["a.txt", "deep", "deep/b.txt"];
    assert.deepEqual(await value("trees", { name: place("docs") }), [tree, tree, tree]);
    await value("write", { name: place("out", "made.txt"), text: "made" });
    assert.equal(await readFile(join(home, "out/made.txt"), "utf8"), "made");
    await writeFile(join(home, "docs/later.txt"), "later");
    assert.equal(await value("read", { name: place("docs", "later.txt") }), "later");
    await rm(join(home, "docs/later.txt"));
  });

  it("are read-only unless they are writable, and an error says who may declare them so", async () => {
    const refused = await message("write", { name: place("docs", "a.txt"), text: "x" });
    assert.match(refused, /The folder "docs" is read-only: the operator may declare it as "writable"/);
    assert.equal(await readFile(join(home, "docs/a.txt"), "utf8"), "first");
  });

  it("are named in errors about other paths, with the line to add", async () => {
    const said = await message("read", { name: join(home, "other/secret.txt") });
    if (said.includes("ENOENT")) return assert.equal(mode, "sandboxed");
    assert.match(
      said,
      /^Guest code may not read files outside its scratch folder \(os\.tmpdir\(\)\) and its folder "docs"/,
    );
    assert.match(said, /"folders": \["docs","out","name"\]; the operator declares folders with BERTH_FOLDERS/);
  });

  it("are not named in the error of a package that looks for a file next to its code", async () => {
    assert.match(
      await message("read", { name: "/bundle/data.json" }),
      /^\/bundle\/data\.json does not exist: a bundle is a single file, .*; import the file in a definition/,
    );
  });

  describe("with a link before `..`", () => {
    const reading = (): GuestProgram => ({ ...programWith(READING), folders: given });
    before(async () => {
      await mkdir(join(home, "other/inner"), { recursive: true });
      for (const folder of ["docs", "out"]) await symlink(join(home, "other/inner"), join(home, folder, "link"));
      await symlink("deep", join(home, "docs/within"));
      await symlink("deep/b.txt", join(home, "docs/inside"));
      await mkdir(join(home, "docs/deep/below"));
      await symlink("deep/below", join(home, "docs/below"));
      await symlink("../secret.txt", join(home, "out/up"));
    });
    it("are not left by any way to read a path", async () => {
      for (const name of [
        "link/../secret.txt",
        "link/..//secret.txt",
        "link/./../secret.txt",
        "deep/../link/../secret.txt",
      ]) {
        const written = `${place("docs")}/${name}`;
        const ways = await rig.value(shape("ways", ["written"]), { written }, { program: reading() });
        for (const [way, said] of Object.entries(ways as Record<string, string>))
          assert.ok(!/worked: .*(?:secret|stands outside|size)|stands outside/.test(said), `${name}, ${way}: ${said}`);
      }
      // By way of the folder, to a place that looks like one of its own files.
      const around = `${place("docs")}/link/../../${mode === "sandboxed" ? "../" : ""}secret.txt`;
      assert.match(await message("read", { name: around }), LEADS_OUT);
    });

    it("are not left by any way to write a path", async () => {
      const written = `${place("out")}/link/../hostile.txt`;
      await rig.value(shape("put", ["written"]), { written }, { program: reading() });
      assert.deepEqual((await readdir(join(home, "other"))).sort(), ["inner", "secret.txt"]);
    });

    it("follow one that stays inside", async () => {
      assert.equal(await value("read", { name: place("docs", "inside") }), "second");
      assert.equal(await value("read", { name: `${place("docs")}/within/../a.txt` }), "first");
      assert.equal(await value("read", { name: `${place("docs")}/below/../b.txt` }), "second");
    });

    it("do not follow a link that was moved or copied out of a folder", async () => {
      for (const how of ["rename", {}, { dereference: true }] as Json[]) {
        if (how === "rename") await symlink("../secret.txt", join(home, "out/moved"));
        const from = how === "rename" ? "moved" : "up";
        const args = { from: place("out", from), to: "brought", how };
        const said = JSON.stringify(await rig.value(shape("bring", Object.keys(args)), args, { program: reading() }));
        assert.ok(!said.includes(SECRET), `${JSON.stringify(how)}: ${said}`);
        if (how === "rename") await rm(join(home, "out/moved"), { force: true });
      }
    });
  });

  it("are seen by scripts at the same place", async () => {
    const run = (script: string): Promise<ScriptOutcome> =>
      rig.executor.runScript(scriptRun(script, { folders: given }));
    const printed = async (script: string): Promise<string> => {
      const outcome = await run(script);
      assert.ok(outcome.ok, JSON.stringify(outcome));
      return outcome.stdout.toString() + outcome.stderr;
    };
    assert.equal(await printed('cat "$BERTH_FOLDER_docs/a.txt"; echo " $BERTH_FOLDER_out"'), `first ${place("out")}\n`);
    await printed('echo scripted > "$BERTH_FOLDER_out/script.txt"');
    assert.equal(await readFile(join(home, "out/script.txt"), "utf8"), "scripted\n");
    if (mode === "trusted") return;

    assert.match(await printed('echo x > "$BERTH_FOLDER_docs/x"'), /Read-only file system/);
    assert.match(await printed(`cat /folders/docs/../../${home}/secret.txt`), /No such file/);
    assert.equal(await printed("ls -a /folders"), ".\n..\ndocs\nout\n");
    for (const way of ["/proc/1/root", "/proc/self/root", "/proc/$$/cwd/..", "/folders/docs/../.."]) {
      assert.match(await printed(`cat "${way}${home}/secret.txt"`), /No such file|Permission denied/, way);
    }
    assert.match(
      await printed("mount --bind /folders/docs /folders/out"),
      /permission denied|must be superuser|not permitted/i,
    );
    assert.match(await printed("mknod /folders/out/null c 1 3"), /Operation not permitted/);
    await printed('ln -s /etc/shadow "$BERTH_FOLDER_out/link"; cat "$BERTH_FOLDER_out/link"');
    await rm(join(home, "out/link"));
    await symlink(join(home, "secret.txt"), join(home, "docs/out"));
    await link(join(home, "docs/a.txt"), join(home, "out/hard"));
    assert.match(await printed("cat /folders/docs/out"), /No such file/);
    assert.match(await printed("ln /folders/docs/a.txt /folders/out/linked"), /cross-device|Operation not permitted/);
    await rm(join(home, "docs/out"));
  });

  if (mode === "trusted") return;

  it("fail only the call if they cannot be mounted", async () => {
    const lost = [{ name: "docs", path: join(home, "missing"), writable: false }];
    const where = shape("where", [], { context: true });
    const failed = [
      failureOf(await rig.call(where, {}, { program: { ...programWith(CODE), folders: lost } })),
      failureOf(await rig.executor.runScript(scriptRun("echo", { folders: lost }))),
    ];
    for (const { reason, message } of failed) {
      assert.match(`${reason}: ${message}`, /^load: a folder cannot be mounted for it/);
      assert.ok(!message.includes(home), "callers hear no path of the host");
    }
    const read = valueOf(await rig.call(shape("read", ["name"]), { name: place("docs", "a.txt") }, { program }));
    assert.equal(read, "first");
  });
});

const LEADS_OUT = /ENOENT|leads out of the folder|outside its scratch folder/;
