import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { Folders, openFolders, type DeclaredFolder, type ProtectedPaths } from "../../src/folders/folders.ts";
import { lower } from "../support/lowered-limits.ts";
import { temporaryFolder } from "../support/suite.ts";

describe("the folders that the operator declares", () => {
  after(lower({ folderMs: 60_000 }));
  const home = temporaryFolder();
  const [dataDir, key, code] = ["data", "keys/key", "code/berth"].map((name) => join(home, name));
  const own: ProtectedPaths = {
    dataDir: dataDir!,
    temporaryDir: join(home, "temporary/files"),
    keyFiles: [key!],
    programs: [code!],
  };
  before(async () => {
    for (const name of ["data", "docs/deep", "code/berth", "keys", "mine", "temporary/files/docs"]) {
      await mkdir(join(home, name), { recursive: true });
    }
    await writeFile(join(home, "keys/key"), "");
    await writeFile(join(home, "file"), "");
  });

  const declared = (path: string, more: Partial<DeclaredFolder> = {}): DeclaredFolder => ({
    name: "docs",
    path,
    writable: false,
    tenants: ["default"],
    ...more,
  });
  const refusal = async (...folders: DeclaredFolder[]): Promise<string> =>
    openFolders(folders, own).then(
      () => "given",
      ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
    );

  it("are read with their mode and their tenants", () => {
    const text = JSON.stringify({
      docs: { path: "/srv/docs" },
      out: { path: "/srv/out", mode: "writable", tenants: ["acme"] },
      all: { path: "/srv/all", mode: "read-only", tenants: "all" },
    });
    assert.deepEqual(readConfig({ BERTH_FOLDERS: text }).folders, [
      { name: "docs", path: "/srv/docs", writable: false, tenants: ["default"] },
      { name: "out", path: "/srv/out", writable: true, tenants: ["acme"] },
      { name: "all", path: "/srv/all", writable: false, tenants: "all" },
    ]);
    assert.deepEqual(readConfig({}).folders, []);
  });

  for (const [what, value, reason] of [
    ["no JSON", "docs=/srv/docs", /must be JSON by name, such as \{"docs"/],
    ["a list", "[]", /must be JSON by name/],
    ["a name with a slash", '{"../x":{"path":"/srv"}}', /"\.\.\/x" cannot be a folder's name/],
    ["a path alone", '{"docs":"/srv"}', /"docs": it must be an object/],
    ["a relative path", '{"docs":{"path":"srv"}}', /"path" must be an absolute path/],
    ["no path", '{"docs":{}}', /"path" must be an absolute path/],
    ["a pattern", '{"docs":{"path":"/srv/*"}}', /must not contain \* or a comma/],
    ["two paths", '{"docs":{"path":"/srv,/etc"}}', /must not contain \* or a comma/],
    ["a mode of its own", '{"docs":{"path":"/srv","mode":"rw"}}', /"mode" must be "read-only" or "writable"/],
    ["a tenant that cannot be", '{"docs":{"path":"/srv","tenants":["../x"]}}', /"tenants" must be "all" or a list/],
    ["an unknown field", '{"docs":{"path":"/srv","writable":true}}', /it has no field "writable"/],
  ] as const) {
    it(`are refused as ${what}`, () => {
      assert.throws(() => readConfig({ BERTH_FOLDERS: value }), { code: "config_invalid", message: reason });
    });
  }

  it("may not be the machine, or a part of it that is no folder of files", async () => {
    assert.match(await refusal(declared("/")), /^config_invalid: .*BERTH_FOLDERS, "docs": \/ is the whole machine/);
    for (const place of ["/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/run"]) {
      assert.match(await refusal(declared(place)), /is part of the machine itself/, place);
    }
  });

  it("may hold nothing of Berth's own, by no way to write it", async () => {
    await symlink(join(home, "data"), join(home, "to-data"));
    for (const place of ["data", "data/../data", "to-data"]) {
      assert.match(await refusal(declared(join(home, place))), /is in Berth's data folder/, place);
    }
    assert.match(await refusal(declared(home)), /holds Berth's data folder/);
    assert.match(await refusal(declared(join(home, "keys"))), /holds a file with a key/);
    for (const place of ["temporary", "temporary/files"]) {
      assert.match(await refusal(declared(join(home, place))), /holds the folder for temporary files/, place);
    }
    assert.equal(await refusal(declared(join(home, "temporary/files/docs"))), "given");
    const code = declared(join(home, "code"), { writable: true });
    assert.match(await refusal(code), /contains programs of Berth, or is part of them, and would be writable/);
    assert.equal(await refusal({ ...code, writable: false }), "given");
  });

  it(
    "may be no other mount of what is refused",
    { skip: process.platform !== "linux" && "mounts are Linux's" },
    async () => {
      for (const name of ["alias", "chroot/proc"]) await mkdir(join(home, name), { recursive: true });
      const module = new URL("../../src/folders/folders.js", import.meta.url).href;
      const folders = ["alias", "chroot"].map((name) => declared(join(home, name), { name }));
      const script = `import { openFolders } from ${JSON.stringify(module)};
      const own = ${JSON.stringify({ ...own, temporaryDir: "/tmp", programs: [] })};
      await openFolders(${JSON.stringify(folders)}, own).catch(({ message }) => console.log(message));`;
      const bound = ["--dev-bind", "/", "/", "--bind", join(home, "data"), join(home, "alias")];
      const processes = ["--unshare-pid", "--proc", join(home, "chroot/proc")];
      const node = [process.execPath, "--input-type=module", "-e", script];
      const { stdout, stderr } = spawnSync("bwrap", [...bound, ...processes, ...node]);
      assert.match(stdout.toString(), /"alias": \S+ is in Berth's data folder/, stderr.toString());
      assert.match(stdout.toString(), /"chroot": \S+ contains \S+\/chroot\/proc, which is part of the machine itself/);
    },
  );

  it("may not hold a data folder that is still to be made", async () => {
    const later = { ...own, dataDir: join(home, "docs/deep/later/data") };
    await assert.rejects(openFolders([declared(join(home, "docs"))], later), /holds Berth's data folder/);
  });

  it("have to be there, and folders, at the start: each that is not is told", async () => {
    const [missing, file] = [declared(join(home, "missing")), declared(join(home, "file"), { name: "file" })];
    assert.match(
      await refusal(missing, file),
      /"docs": \S+ does not exist; BERTH_FOLDERS, "file": \S+ is not a folder/,
    );
  });

  it("may not stand in one that is writable: its writers could put a link there", async () => {
    const [outer, inner] = [declared(join(home, "docs"), { name: "outer" }), declared(join(home, "docs/deep"))];
    assert.equal(await refusal(outer, inner), "given");
    assert.match(await refusal({ ...outer, writable: true }, inner), /is in the folder "outer", which is writable/);
  });

  it("are a tenant's own: to others they are as if they were not declared", async () => {
    const folders = await openFolders([declared(join(home, "docs"), { tenants: ["acme"] })], own);
    assert.equal(folders.problem("acme", "docs"), undefined);
    assert.equal(folders.problem("other", "docs")!.replaceAll('"docs"', '"none"'), folders.problem("other", "none"));
    await assert.rejects(folders.now("other", ["docs"]), /has not declared a folder "docs"/);
    assert.equal((await folders.now("acme", ["docs"])).folders[0]!.path, join(home, "docs"));
  });

  it("that vanish are told, and are another one when they are back", async () => {
    const path = join(home, "mine");
    const folders = await openFolders([declared(path)], own);
    const before = await folders.now("default", ["docs"]);
    assert.deepEqual(await folders.now("default", ["docs"]), before);
    await rename(path, join(home, "away"));
    await assert.rejects(folders.now("default", ["docs"]), { mayPass: true, message: /"docs" is not there/ });
    await mkdir(path);
    assert.notEqual((await folders.now("default", ["docs"])).version, before.version);
  });

  it("are not followed to where a link in their place leads", async () => {
    const path = join(home, "parent/child");
    await mkdir(path, { recursive: true });
    const folders = await openFolders([declared(path)], own);
    await rename(dirname(path), join(home, "moved"));
    await symlink(join(home, "moved"), dirname(path));
    await assert.rejects(folders.now("default", ["docs"]), /"docs" is not there/);
    await rm(dirname(path));
    await mkdir(dirname(path));
    await symlink(join(home, "data"), path);
    await assert.rejects(folders.now("default", ["docs"]), /"docs" is not there/);
  });

  it("that do not answer fail their calls after a while, and hold one thread whoever waits", async (t) => {
    t.after(lower({ folderMs: 5 }));
    let looks = 0;
    let answer!: (identity: string) => void;
    const look = (): Promise<string> => {
      looks += 1;
      return new Promise((resolve) => (answer = resolve));
    };
    const folders = new Folders([declared("/srv/docs")], new Map([["docs", "/srv/docs"]]), look);
    const calls = [1, 2, 3].map(() => folders.now("default", ["docs"]));
    for (const call of calls)
      await assert.rejects(call, { mayPass: true, message: /"docs" did not answer within 5 ms/ });
    assert.equal(looks, 1);
    const patient = folders.now("default", ["docs"]);
    answer("1:2");
    assert.equal((await patient).version, "docs=1:2");
    assert.equal(looks, 1);
  });

  it("have to be readable to Berth", { skip: process.getuid?.() === 0 && "root reads everything" }, async () => {
    const path = join(home, "closed");
    await mkdir(path);
    await chmod(path, 0o100);
    assert.match(await refusal(declared(path)), /cannot be read/);
  });
});
