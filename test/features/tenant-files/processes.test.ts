import assert from "node:assert/strict";
import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";
import type { Store } from "../../../src/store/store.ts";
import { apiOf } from "../../support/api.ts";
import { call, withStatus } from "../../support/berth.ts";
import { cli, exits, type Ran } from "../../support/commands.ts";
import { berthInProcess } from "../../support/in-process.ts";
import { ServeProcess } from "../../support/serve-process.ts";
import { withStore } from "../../support/store.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { addTenant } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

const MEBIBYTE = 1024 * 1024;
const LARGE_BYTES = 64 * MEBIBYTE;
/** The memory of a process that exports or imports it: it ends when it needs more. */
const MEMORY_MIB = 40;

const folder = temporaryFolder();
const fileIn = (name: string): string => join(folder, name);

const onStore = <T>(name: string, work: (store: Store) => Promise<T>): Promise<T> => withStore(fileIn(name), work);

const leftIn = (name: string): string[] => readdirSync(fileIn(name)).filter((each) => each.startsWith("import-"));
const work = (what: "export" | "import", data: string, file: string): ChildProcess =>
  fork(join("dist", "test", "support", "tenant-file-process.js"), [what, fileIn(data), fileIn(file)], {
    execArgv: [`--max-old-space-size=${MEMORY_MIB}`],
  });
const tenant = (args: string[], input = ""): Promise<Ran> => berthInProcess(["tenant", ...args], { input });

describe("a large tenant", () => {
  before(() =>
    onStore("large", async (store) => {
      await store.tenants.create("large", { by: "test" });
      const text = "x".repeat(MEBIBYTE / 4);
      for (let index = 0; index < LARGE_BYTES / text.length; index++) {
        const block = rawBlock(`${index}${text}`);
        const set = [{ kind: "variable", name: `v${index}`, cid: block.cid }] as const;
        await store.change("large", { by: "test", put: [block], set });
      }
    }),
  );

  before(async () => {
    await onStore("small", (store) => addTenant(store, "large", { variables: { plan: "small" } }));
    const exported = await tenant(["export", "large", "--out", fileIn("small.berth"), "--data", fileIn("small")]);
    assert.equal(exported.code, 0);
  });

  it("is exported and imported in less memory than it has content", { timeout: 300_000 }, async () => {
    for (const [what, data] of [
      ["export", "large"],
      ["import", "large-2"],
    ] as const) {
      const [code] = (await once(work(what, data, "large.berth"), "exit")) as [number];
      assert.equal(code, 0, what);
    }
    assert.ok(statSync(fileIn("large.berth")).size > LARGE_BYTES);
    await onStore("large-2", async (store) => assert.equal((await store.names("large", "variable")).length, 256));
  });

  it("is imported whole while other processes remove what imports have left", { timeout: 300_000 }, async () => {
    await onStore("beside", async (store) => {
      const reading = spawn(process.execPath, [cli, "tenant", "import", "-", "--data", fileIn("beside")], {
        stdio: ["pipe", "ignore", "inherit"],
      });
      const exited = once(reading, "exit");
      const file = readFileSync(fileIn("large.berth"));
      reading.stdin.write(file.subarray(0, MEBIBYTE));
      await until(() => leftIn("beside").length === 1);
      const isOver = (): boolean => reading.exitCode !== null;
      // Each of them removes leftovers first: while the file is read, and while its content is written.
      const cleanUp = () => store.values.clear("default", "state", "none", "test");
      for (let time = 0; time < 10; time++) await cleanUp();
      assert.equal(leftIn("beside").length, 1);
      reading.stdin.end(file.subarray(MEBIBYTE));
      while (!isOver()) await cleanUp();
      assert.deepEqual(await exited, [0, null]);
      assert.equal((await store.names("large", "variable")).length, 256);
      for (const { name, cid } of await store.names("large", "variable"))
        assert.ok(await store.content("large", cid), `${name} has its content`);
      assert.deepEqual(leftIn("beside"), []);
    });
  });

  it("whose reader goes away is not exported any further, and that is said", async () => {
    const child = spawn(process.execPath, [cli, "tenant", "export", "large", "--data", fileIn("large")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdout.once("data", () => child.stdout.destroy());
    const [code] = (await once(child, "close")) as [number];
    assert.deepEqual([code, stderr], [2, "berth: Nothing was copied: the file cannot be written: write EPIPE\n"]);
  });

  it(
    "whose import is killed at any time is not there, and what is left of it goes with the next",
    { timeout: 300_000 },
    async () => {
      const claimsOf = (like: string): number => {
        const database = new Database(join(fileIn("killed"), "berth.sqlite"), { readonly: true });
        const count = database.prepare<[string], number>("SELECT count(*) FROM tenant_content WHERE tenant LIKE ?");
        const claims = count.pluck().get(like)!;
        database.close();
        return claims;
      };

      await onStore("killed", (store) => addTenant(store, "other", { variables: { plan: "other" } }));
      const reading = spawn(process.execPath, [cli, "tenant", "import", "-", "--data", fileIn("killed")], {
        stdio: ["pipe", "ignore", "inherit"],
      });
      // The pipe breaks with its reader.
      reading.stdin.on("error", () => {});
      reading.stdin.write(readFileSync(fileIn("large.berth"), "utf8").slice(0, MEBIBYTE));
      await until(async () => leftIn("killed").length === 1);
      reading.kill("SIGKILL");
      await once(reading, "exit");
      assert.equal(claimsOf("~%"), 0, "what was not looked at whole is nowhere");

      // A process that ended before it was seen at work proves nothing.
      for (let isOver = true; isOver;) {
        const writing = work("import", "killed", "large.berth");
        const exited = once(writing, "exit");
        await until(async () => claimsOf("~%") > 5 || writing.exitCode !== null);
        writing.kill("SIGKILL");
        await exited;
        isOver = await onStore("killed", async (store) => {
          const isThere = (await store.tenants.find("large")) !== undefined;
          if (isThere) await store.tenants.delete("large", "test");
          return isThere;
        });
      }
      assert.ok(claimsOf("~%") < 256);
      assert.equal(leftIn("killed").length, 1, "what the first has left is gone with the second");
      await onStore("killed", async (store) => {
        assert.equal(await store.tenants.find("large"), undefined);
        assert.equal(await store.tenants.hasAnything("large"), false);
      });

      await exits(0, tenant(["import", fileIn("small.berth"), "--as", "next", "--data", fileIn("killed")]));
      assert.deepEqual([leftIn("killed"), claimsOf("~%"), claimsOf("other")], [[], 0, 1]);
      await onStore("killed", async (store) => {
        const bytes = await store.content("next", rawBlock("small").cid);
        assert.equal(bytes && new TextDecoder().decode(bytes), "small");
      });
    },
  );
});

describe("berth tenant export and import", () => {
  before(() =>
    onStore("here", (store) =>
      addTenant(store, "acme", { variables: { plan: "onwards" }, hosts: ["acme.example"], limits: { calls: 7 } }),
    ),
  );
  const here = ["--data", fileIn("here")];
  const there = ["--data", fileIn("there")];

  it("write a tenant to standard output or to a file that nobody else may read, and say what is not in it", async () => {
    const printed = await exits(0, tenant(["export", "acme", ...here]));
    assert.match(
      printed.stderr,
      /^The tenant acme is exported: 1 contents of 7 bytes, and 1 changes of names\.\nThe file has no tokens, /,
    );
    const out = fileIn("acme.berth");
    assert.equal((await tenant(["export", "acme", "--out", out, ...here])).code, 0);
    assert.equal(readFileSync(out, "utf8"), printed.stdout);
    assert.equal(statSync(out).mode & 0o777, 0o600);
    const again = await tenant(["export", "acme", "--out", out, ...here]);
    assert.match(again.stderr, /^berth: Nothing was copied: .*acme\.berth already exists; --force replaces it/);
    assert.equal((await tenant(["export", "acme", "--out", out, "--force", ...here])).code, 0);
    const damaged = fileIn("damaged.berth");
    await onStore("damaged", (store) => addTenant(store, "acme", { variables: { plan: "onwards" } }));
    const database = new Database(join(fileIn("damaged"), "berth.sqlite"));
    database.prepare("UPDATE content SET bytes = ?").run(Buffer.from("backwards"));
    database.close();
    const broken = await tenant(["export", "acme", "--out", damaged, "--data", fileIn("damaged")]);
    assert.deepEqual([broken.code, existsSync(damaged)], [2, false]);
    assert.match(broken.stderr, /Stored bytes do not match their CID: bafk/);
    const nobody = await tenant(["export", "nobody", "--out", fileIn("nobody.berth"), ...here]);
    assert.deepEqual([nobody.code, nobody.stdout, existsSync(fileIn("nobody.berth"))], [2, "", false]);
    assert.match(nobody.stderr, /No such tenant: "nobody"/);
  });

  it("read it from a file or from standard input, under its name or another, and refuse what is there", async () => {
    const file = fileIn("acme.berth");
    const checked = await tenant(["import", file, "--check", ...there]);
    assert.deepEqual(
      [checked.code, /is complete: the tenant acme, 1 contents/.test(checked.stderr)],
      [0, true],
      checked.stderr,
    );
    await onStore("there", async (store) => assert.equal(await store.tenants.find("acme"), undefined));
    const made = await tenant(["import", file, ...there]);
    assert.match(made.stderr, /The tenant acme is served at \/t\/acme\/mcp: .*\nLimits of its own: calls=7\.\n$/);
    assert.match((await tenant(["import", file, ...there])).stderr, /already: "acme"; replace it with --replace/);
    const asked = await tenant(["import", file, "--replace", ...there]);
    assert.deepEqual([asked.code, /use --yes to replace it\.\nNothing was imported/.test(asked.stderr)], [1, true]);
    await exits(0, tenant(["import", "-", "--replace", "--yes", ...there], readFileSync(file, "utf8")));
    assert.equal((await tenant(["import", "-", "--as", "next", ...there], readFileSync(file, "utf8"))).code, 0);
    const absent = await tenant(["import", fileIn("absent"), ...there]);
    assert.match(absent.stderr, /^berth: This file cannot be imported, .*absent cannot be read/);
  });

  it("take a file of default as default only when that is said: its code would be the operator's own", async () => {
    const file = fileIn("default.berth");
    assert.equal((await tenant(["export", "default", "--out", file, ...here])).code, 0);
    const refused = await tenant(["import", file, "--data", fileIn("new")]);
    assert.deepEqual(
      [refused.code, /use --as default if you trust it/.test(refused.stderr)],
      [2, true],
      refused.stderr,
    );
    assert.equal((await tenant(["import", file, "--as", "default", "--data", fileIn("new")])).code, 0);
    assert.equal((await tenant(["import", file, "--as", "guest", "--data", fileIn("new")])).code, 0);
  });

  it("merge the folder of a boot image into a tenant", async () => {
    const unnamed = await tenant(["import", "boot", ...there]);
    assert.match(unnamed.stderr, /an image names no tenant; use --as NAME/);
    const made = await tenant(["import", "boot", "--as", "booted", ...there]);
    assert.match(made.stderr, /^The tenant booted is served at \/t\/booted\/mcp: \d+ names follow the image\.\n$/);
    const again = await tenant(["import", "boot", "--as", "booted", ...there]);
    assert.match(again.stderr, /: 0 names follow the image\.\n$/);
    const asDefault = await tenant(["import", "boot", "--as", "default", ...there]);
    assert.match(asDefault.stderr, /follows the image that Berth/);
    const checked = await tenant(["import", "boot", "--as", "booted", "--check", ...there]);
    assert.match(checked.stderr, /is complete: the image/);
  });

  it("refuse what starts programs of this machine, and list each of them, unless it is said that it may", async () => {
    const program = "mcp+npx://@example/tool?env.KEY=${KEY}";
    const elsewhere = JSON.stringify({ upstream: "mcp+node:///srv/hidden.js" });
    const entry = rawBlock(elsewhere);
    const mcps = {
      shown: { upstream: program, secrets: ["KEY"] },
      off: { upstream: "mcp+uvx://off", enabled: false },
      hidden: { config_cid: entry.cid },
      remote: { upstream: "mcp+https://example.com/mcp" },
      say: { description: "Says." },
    };
    await onStore("here", (store) =>
      addTenant(store, "starting", { variables: { mcps: JSON.stringify(mcps), entry: elsewhere } }),
    );
    const file = fileIn("starting.berth");
    assert.equal((await tenant(["export", "starting", "--out", file, ...here])).code, 0);
    const isThere = (name: string) => onStore("there", async (store) => Boolean(await store.tenants.find(name)));
    const listed = [
      "Its servers start programs on this machine, as the user that Berth runs as, outside the sandbox:",
      "  hidden: mcp+node:///srv/hidden.js",
      "  off: mcp+uvx://off",
      `  shown: ${program}`,
    ].join("\n");

    const refused = await tenant(["import", file, ...there]);
    assert.deepEqual([refused.code, await isThere("starting")], [2, false], refused.stderr);
    assert.equal(
      refused.stderr,
      `${listed}\nberth: Starting programs is not permitted here: nothing was changed; add --programs if you trust each of these programs\n`,
    );
    const checked = await tenant(["import", file, "--check", ...there]);
    assert.deepEqual([checked.code, checked.stderr.startsWith(`${listed}\n`)], [0, true], checked.stderr);
    const made = await tenant(["import", file, "--programs", ...there]);
    assert.deepEqual([made.code, made.stderr.startsWith(`${listed}\n`)], [0, true], made.stderr);
    assert.equal(await isThere("starting"), true);

    // Sources of an image whose only server is an upstream program.
    const sources = fileIn("sources");
    mkdirSync(sources);
    writeFileSync(join(sources, "mcps.source.json"), JSON.stringify({ shown: { upstream: "mcp+uvx://tool" } }));
    const boot = {
      servers: [],
      variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }],
    };
    for (const name of ["default", "readonly"]) {
      writeFileSync(join(sources, `${name}.boot.source.json`), JSON.stringify(boot));
    }
    const image = fileIn("image");
    const env = { XDG_CACHE_HOME: fileIn("cache") };
    assert.equal((await berthInProcess(["boot", "--from", sources, "--out", image], { env })).code, 0);
    const merging = await tenant(["import", image, "--as", "merged", ...there]);
    assert.deepEqual([merging.code, await isThere("merged")], [2, false], merging.stderr);
    assert.match(merging.stderr, /^Its servers .*\n {2}shown: mcp\+uvx:\/\/tool\nberth: /);
    assert.equal((await tenant(["import", image, "--as", "merged", "--programs", ...there])).code, 0);

    const starting = { BERTH_TENANT_UPSTREAMS: "starting" };
    const served = await exits(2, berthInProcess(["serve", "--port", "0", "--image", file], { env: starting }));
    assert.match(served.stderr, /shown: mcp\+npx:.*\nberth: .*add --programs/);
  });

  it("refuse a boot image that hides a program behind a repeated name or behind content of the tenant", async () => {
    const entry = { upstream: "mcp+node:///srv/hidden.js" };
    const [target, empty] = [rawBlock(JSON.stringify(entry)), rawBlock("{}")];
    const [open, referring] = [{ hidden: entry }, { hidden: { config_cid: target.cid } }].map((mcps) =>
      rawBlock(JSON.stringify(mcps)),
    );
    const importAs = (name: string, values: readonly (typeof empty)[]) => {
      const variables = values.map(({ cid }) => ({ name: "mcps", definition_cid: cid, enabled: true }));
      const content = values.map(({ cid }) => cid);
      const manifest = jsonBlock({ servers: [], variables, content, derived: {} });
      const folder = fileIn(`image-of-${name}`);
      mkdirSync(join(folder, "content"), { recursive: true });
      for (const { cid, bytes } of [...values, manifest]) writeFileSync(join(folder, "content", cid), bytes);
      writeFileSync(join(folder, "default.boot.cid"), manifest.cid);
      return tenant(["import", folder, "--as", name, ...there]);
    };

    const repeated = await importAs("repeated", [empty, open!]);
    assert.deepEqual([repeated.code, repeated.stderr.includes('"mcps" is listed twice')], [2, true], repeated.stderr);
    await onStore("there", (store) => addTenant(store, "referring", { variables: { kept: JSON.stringify(entry) } }));
    const refused = await importAs("referring", [referring!]);
    assert.deepEqual(
      [refused.code, refused.stderr.includes("hidden: mcp+node:///srv/hidden.js")],
      [2, true],
      refused.stderr,
    );
    assert.equal(await onStore("there", (store) => store.name("referring", "variable", "mcps")), undefined);
  });

  it("berth serve --image serves a tenant's file by itself, read-only, and leaves nothing", async () => {
    await onStore("here", (store) =>
      addTenant(store, "shown", { servers: { say: `export function say(): string { return "shown"; }\n` } }),
    );
    const file = fileIn("shown.berth");
    assert.equal((await tenant(["export", "shown", "--out", file, ...here])).code, 0);
    const data = join(folder, "tmp");
    mkdirSync(data);
    const served = await ServeProcess.start(["--port", "0", "--image", file], { TMPDIR: data });
    try {
      assert.match(served.url, /\/t\/shown$/);
      assert.equal((await call(`${served.url}/mcp/say`, "say")).content[0].text, "shown");
      await withStatus(403, apiOf(served).send("PUT", "/variables/plan", "x", { "If-None-Match": "*" }));
    } finally {
      await served.end("SIGTERM");
    }
    assert.deepEqual(readdirSync(data), []);
    const ofDefault = fileIn("default.berth");
    writeFileSync(ofDefault, readFileSync(file, "utf8").replace('"tenant":"shown"', '"tenant":"default"'));
    const trusting = await exits(2, berthInProcess(["serve", "--port", "0", "--image", ofDefault]));
    assert.match(trusting.stderr, /use --as default if you trust it, or --as another name/);
    const both = await berthInProcess(["serve", "--image", file, ...here]);
    assert.match(both.stderr, /a tenant's file is served without a store/);
  });

  it("tell everything that is wrong with a file, with its lines", async () => {
    writeFileSync(fileIn("bad.berth"), readFileSync(fileIn("acme.berth"), "utf8").replace("onwards", "backwards"));
    const { stderr } = await exits(1, tenant(["import", fileIn("bad.berth"), "--as", "bad", ...there]));
    assert.match(stderr, /bad\.berth:2: error: The bytes do not match bafk\w+ \[wrong-content\]\n/);
    assert.match(stderr, /bad\.berth:3: error: .*\[missing-content\]\n/);
    assert.match(stderr, /bad\.berth:4: error: .*\[wrong-digest\]\nNothing was imported: 3 errors\.\n$/);
  });

  it("take no limit of the file that is higher than the tenant's own or the service's", async () => {
    const limits = { calls: 10 ** 9, guestProcesses: 9, requests: 5, savesPerMinute: 0, storedBytes: 10 ** 12 };
    await onStore("here", (store) => addTenant(store, "raised", { variables: { plan: "more" }, limits }));
    const file = fileIn("raised.berth");
    assert.equal((await tenant(["export", "raised", "--out", file, ...here])).code, 0);
    const own = { guestProcesses: 2, savesPerMinute: 30 };
    await onStore("there", (store) => addTenant(store, "raised", { variables: { plan: "less" }, limits: own }));
    const { stderr } = await exits(0, tenant(["import", file, "--replace", "--yes", ...there]));
    const found = await onStore("there", (store) => store.tenants.find("raised"));
    assert.deepEqual(found!.limits, { ...own, requests: 5 });
    assert.match(
      stderr,
      /\nHigher limits of the file were not applied: berth tenant limit raised calls=1000000000 guestProcesses=9 savesPerMinute=0 storedBytes=1000000000000\n/,
    );
  });

  it("refuse more content than the tenant may have", async () => {
    await onStore("here", (store) => store.tenants.change("acme", { by: "test", limits: { storedBytes: 6 } }));
    const file = fileIn("large-claim.berth");
    assert.equal((await tenant(["export", "acme", "--out", file, ...here])).code, 0);
    const { code, stderr } = await tenant(["import", file, "--as", "claim", ...there]);
    assert.deepEqual(
      [code, /the file has 7 bytes of content, and the tenant may store 6/.test(stderr)],
      [2, true],
      stderr,
    );
    await onStore("there", async (store) => assert.equal(await store.tenants.find("claim"), undefined));
  });
});
