import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { before, beforeEach, describe, test } from "node:test";
import { call } from "../support/berth.ts";
import { berth as berthProcess, exits, type Ran } from "../support/commands.ts";
import { startDev } from "../support/dev-process.ts";
import { berthInProcess as berth } from "../support/in-process.ts";
import { type TestPackage } from "../support/registry.ts";
import { registryInSuite } from "../support/suite.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const PAPERS: TestPackage = {
  name: "papers",
  version: "2.1.0",
  manifest: { main: "index.js", dependencies: { inks: "^1.0.0" } },
  files: { "index.js": 'exports.print = (text) => `${require("inks").ink}: ${text}`;\n' },
};
const INKS: TestPackage = {
  name: "inks",
  manifest: { types: "index.d.ts" },
  files: { "index.js": 'exports.ink = "black";\n', "index.d.ts": "export const ink: string;\n" },
};
const TYPES: TestPackage = {
  name: "@types/papers",
  version: "2.0.1",
  manifest: { types: "index.d.ts" },
  files: { "index.d.ts": "export function print(text: string): string;\n" },
};
const SCRIPTED: TestPackage = {
  name: "scripted",
  manifest: { hasInstallScript: true, scripts: { install: "node -e \"fs.writeFileSync('ran','')\"" } },
  files: { "index.js": "exports.one = 1;\n", "index.d.ts": "export const one: number;\n" },
};

describe("berth add", () => {
  const cache = temporaryFolder();
  const registry = registryInSuite(PAPERS, INKS, TYPES, SCRIPTED);
  let folder: string;
  before(() => {
    const exports = { ".": { node: { import: "./lib/index.mjs" } } };
    const files = { "lib/index.mjs": "", "lib/index.d.mts": "export const ink: string;\n" };
    registry.publish({ ...TYPES, version: "3.0.0" }, { name: "dotenvs", manifest: { exports }, files });
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(cache, "sources-"));
    await writeFile(join(folder, ".npmrc"), `registry=${registry.url}\n`);
  });

  const env = (): Record<string, string> => ({ npm_config_cache: cache, npm_config_registry: registry.url });
  const run = (...args: string[]): Promise<Ran> => berth(args, { cwd: folder, env: env() });
  const packageJson = (at = folder) => JSON.parse(readFileSync(join(at, "package.json"), "utf8"));

  test("pins packages in a new package.json, with the types of one that has none; berth remove removes both", async () => {
    const { stderr } = await exits(0, run("add", "papers"));
    assert.match(stderr, /^Made package\.json\.$/m);
    assert.match(stderr, /^Added papers 2\.1\.0 to \. \(3 packages more\)\.$/m);
    assert.match(stderr, /papers has the types of @types\/papers 2\.0\.1\./, "those of its own major version");
    const { private: isPrivate, type, dependencies } = packageJson();
    assert.deepEqual([isPrivate, type], [true, "module"]);
    assert.deepEqual(Object.keys(dependencies), ["@types/papers", "papers"]);
    assert.ok(existsSync(join(folder, "package-lock.json")));
    assert.ok(existsSync(join(folder, "node_modules", "papers", "index.js")), "for the editor");

    const removed = await exits(0, run("remove", "papers"));
    assert.match(removed.stderr, /Removed papers, @types\/papers from \. \(3 packages less\)\./);
    assert.deepEqual(Object.keys(packageJson().dependencies ?? {}), []);
    const unknown = await exits(2, run("remove", "papers"));
    assert.match(unknown.stderr, /papers is not among the dependencies of package\.json/);
  });

  test("reports packages with types of their own, ignored install scripts, and names close to well-known ones", async () => {
    const { stderr } = await exits(0, run("add", "scripted", "dotenvs"));
    assert.match(stderr, /dotenvs has types of its own\./);
    assert.deepEqual(Object.keys(packageJson().dependencies), ["dotenvs", "scripted"]);
    assert.match(stderr, /warning: scripted 1\.0\.0: its install script is never run/);
    assert.ok(!existsSync(join(folder, "node_modules", "scripted", "ran")));
    assert.match(stderr, /"dotenvs" differs by one letter from the well-known "dotenv"/);
    assert.equal(stderr.match(/one letter/g)!.length, 1);
    assert.doesNotMatch((await run("add", "inks")).stderr, /install script/, "reports it once");
  });

  test("takes nothing but names of the registry, and makes nothing before it knows", async () => {
    const others = "git+https://example.com/a.git ./folder a/b https://example.com/a.tgz x@npm:y --global".split(" ");
    for (const spec of others) {
      const { code, stderr } = await run("add", "--", spec);
      assert.equal(code, 2, `${spec}: ${stderr}`);
      assert.match(stderr, /is no package of the registry: write a name/);
    }
    assert.ok(!existsSync(join(folder, "package.json")));
  });

  test("says which package there is not, with npm's own words", async () => {
    const { stderr } = await exits(2, berthProcess(["add", "nobody-has-this"], { cwd: folder, env: env() }));
    assert.match(stderr, /E404/);
    assert.match(stderr, /npm install failed/);
  });

  test("adds to the folder of sources at hand and to the nearest package.json", async () => {
    await mkdir(join(folder, "reference_templates"));
    await mkdir(join(folder, "tools", "deep"), { recursive: true });
    await writeFile(join(folder, "reference_templates", "mcps.source.json"), "{}");
    await writeFile(join(folder, "tools", "package.json"), "{}");
    await run("add", "inks");
    assert.deepEqual(Object.keys(packageJson(join(folder, "reference_templates")).dependencies), ["inks"]);
    const deep = await berth(["add", "inks"], { cwd: join(folder, "tools", "deep"), env: env() });
    assert.match(deep.stderr, /Added inks 1\.0\.0 to \.\. /);
    assert.deepEqual(Object.keys(packageJson(join(folder, "tools")).dependencies), ["inks"]);
    assert.ok(!existsSync(join(folder, "package.json")));
  });

  test("while berth dev serves, which then serves what imports the package", async (t) => {
    const text = 'import { print } from "papers";\nexport function say(word: string) {\n  return print(word);\n}\n';
    await writeFile(join(folder, "hello.ts"), text);
    const dev = await startDev(t, {}, ["hello.ts"], { folder, env: env() });
    assert.match(dev.output(), /"papers" cannot be imported/);
    await run("add", "papers");
    await dev.printed(/hello {2}http\S+ {2}1 tool\n/);
    const { content } = await call(`${dev.url}/mcp/hello`, "say", { word: "hello" });
    assert.equal(content[0].text, "black: hello");

    registry.publish({ ...PAPERS, version: "2.2.0", files: { "index.js": "exports.print = () => 'reprinted';\n" } });
    await run("add", "papers@2.2.0");
    await until(async () => {
      const { content: again } = await call(`${dev.url}/mcp/hello`, "say", { word: "hello" });
      return again?.[0].text === "reprinted";
    });
  });

  const SAY =
    'import { print } from "papers";\nexport function say(word: string): string {\n  return print(word);\n}\n';
  /** Writes a file below the folder. */
  const write = async (path: string, text: string): Promise<void> => {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  };

  test("is for all files below: berth discover takes the nearest package.json, and none above a folder of sources", async () => {
    await run("add", "papers");
    await write("tools/deep/say.ts", SAY);
    const found = await exits(0, run("discover", "tools/deep/say.ts"));
    assert.match(found.stdout, /^say\(word: string\): string\n\n1 tool\n$/);

    await write("tools/mcps.source.json", "{}");
    const bounded = await exits(1, run("discover", "tools/deep/say.ts"));
    assert.match(bounded.stderr, /"papers" cannot be imported/);
  });

  test("berth discover says what is wrong with the files of npm, and only to who imports what they are about", async () => {
    await write("say.ts", SAY);
    await write("plain.ts", "export function plain(): number {\n  return 1;\n}\n");
    await write("package.json", '{\n  "workspaces": ["a"],\n  "dependencies": {\n    "papers": "^2.0.0"\n  }\n}\n');
    const unlocked = await exits(1, run("discover", "say.ts"));
    assert.match(unlocked.stderr, /^package\.json:4:\d+.*error: There is no package-lock\.json next to it/m);
    const plain = await exits(0, run("discover", "plain.ts"));
    assert.equal(plain.stderr, "");
  });

  test("berth dev says that it serves the packages of one folder, and serves that one", async (t) => {
    await write("one/one.ts", SAY);
    await write("two/two.ts", SAY.replaceAll("say", "tell"));
    await run("add", "--from", "one", "papers");
    await run("add", "--from", "two", "papers");
    const dev = await startDev(t, {}, ["one/one.ts", "two/two.ts"], { folder, env: env() });
    assert.match(
      dev.output(),
      /two\/package\.json: error: These servers import packages of one, and others those of two/,
    );
    assert.match((await call(`${dev.url}/mcp/one`, "say", { word: "hello" })).content[0].text, /hello|reprinted/);
  });
});
