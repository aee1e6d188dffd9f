import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { watch } from "chokidar";
import { SETTLED_MS } from "../../src/commands/dev.ts";
import { packageRoot } from "../../src/config.ts";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { call, post, request, withStatus } from "../support/berth.ts";
import { holdTimeouts } from "../support/clock.ts";
import { exits, type Ran } from "../support/commands.ts";
import { shareCompiler } from "../support/compiler.ts";
import { startDev } from "../support/dev-process.ts";
import { berthInProcess } from "../support/in-process.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { inOneOf, until } from "../support/until.ts";

const GREET = "/** Greets. */\nexport function greet(name: string): string {\n  return `Hello, ${name}!`;\n}\n";
const BROKEN = "export function greet( {\n";

shareCompiler();

const place = temporaryFolder();
/** Where Berth remembers the images that it made. */
const env = { XDG_CACHE_HOME: join(place, "cache") };
after(holdTimeouts(loadBounds.loadElapsedMs));
let count = 0;

/** A new folder with these files; objects become JSON. */
function folderWith(files: Record<string, string | object>): string {
  const folder = join(place, `folder-${(count += 1)}`);
  for (const [name, content] of Object.entries(files)) write(folder, name, content);
  return folder;
}

function write(folder: string, name: string, content: string | object): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content, null, 2));
}

/** Every file and folder in a folder, with what its files hold. */
function contentsOf(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => {
    const stats = lstatSync(join(folder, name));
    return [name, stats.isFile() ? readFileSync(join(folder, name), "utf8") : ""] as const;
  });
  return Object.fromEntries(entries);
}

const run = (args: readonly string[], cwd = place): Promise<Ran> => berthInProcess(args, { cwd, env });

async function serve(t: TestContext, args: readonly string[], cwd = place): Promise<ServeProcess> {
  const served = await ServeProcess.start(["--port", "0", ...args], env, {}, cwd);
  t.after(() => served.end("SIGKILL"));
  return served;
}

describe("berth init", () => {
  let folder: string;
  let made: Ran;

  before(async () => {
    made = await run(["init", "My Servers"]);
    folder = join(place, "My Servers");
  });

  test("creates a folder without problems, and prints each file and the next command", async () => {
    assert.equal(made.code, 0, made.stderr);
    const files = Object.keys(contentsOf(folder)).filter((name) => lstatSync(join(folder, name)).isFile());
    assert.ok(files.length >= 8);
    for (const name of files) assert.match(made.stdout, new RegExp(`^ {2}${name.replaceAll(".", "\\.")} +\\w`, "m"));
    assert.match(made.stdout, /^Next:\n {2}cd 'My Servers'\n {2}berth dev$/m);

    const checked = await run(["check", "--strict", "--json", "My Servers"]);
    assert.equal(checked.code, 0, checked.stdout);
    assert.deepEqual(JSON.parse(checked.stdout), { servers: 1, problems: [] });
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    assert.equal(manifest.name, "my-servers");
    assert.deepEqual(Object.keys(manifest), ["name", "private", "type", "scripts"], "it needs nothing from npm");
  });

  test("creates a folder in which the TypeScript of an editor knows Berth, without an installation", async (t) => {
    write(folder, "wrong.ts", 'import type { ToolContxt } from "berth";\nexport type Wrong = ToolContxt;\n');
    t.after(() => rmSync(join(folder, "wrong.ts")));
    const tsc = join(packageRoot, "node_modules/typescript/bin/tsc");
    const { stdout } = await promisify(execFile)(process.execPath, [tsc, "-p", folder]).catch((error) => error);
    assert.match(
      stdout,
      /^\S[^\n]*wrong\.ts\(1,15\): error TS2724: '"berth"' has no exported member named 'ToolContxt'[^\n]*\n$/,
    );
    const { $schema } = JSON.parse(readFileSync(join(folder, "mcps.json"), "utf8"));
    assert.ok(existsSync(join(folder, $schema)), "the schema of mcps.json is in the folder");
  });

  test("refuses a folder that already lists servers, and changes nothing in it", async () => {
    const before = contentsOf(folder);
    const { stderr } = await exits(2, run(["init", "My Servers"]));
    assert.match(
      stderr,
      /My Servers already has an mcps\.json: add your servers to it, and run `berth dev My Servers`/,
    );
    assert.deepEqual(contentsOf(folder), before);
  });

  test("adds missing files to an existing folder, and leaves the others unchanged", async () => {
    const theirs = {
      "package.json": { name: "theirs" },
      "README.md": "Theirs.\n",
      "hello.ts": "export const x = 1;\n",
    };
    const other = folderWith(theirs);
    const before = contentsOf(other);
    mkdirSync(join(place, "elsewhere"));
    symlinkSync(join(place, "elsewhere/types.d.ts"), join(other, "berth.d.ts"));
    const { stdout } = await exits(0, run(["init"], other));
    assert.match(stdout, /^Left unchanged: package\.json, berth\.d\.ts, README\.md$/m);
    const now = contentsOf(other);
    for (const [name, text] of Object.entries(before)) assert.equal(now[name], text, name);
    assert.deepEqual(readdirSync(join(place, "elsewhere")), [], "nothing is written through a link");
    const list = JSON.parse(now["mcps.json"]!) as Record<string, { definition: string }>;
    assert.equal(list["hello-berth"]!.definition, "hello-berth.ts");
    assert.ok(now["hello-berth.ts"]);
  });

  test("makes no servers of a person's home or of a whole machine", async () => {
    for (const [command, path, why] of [
      ["init", homedir(), /your home/],
      ["serve", "/", /the root of this machine/],
      ["check", homedir(), /your home/],
      ["dev", "/", /the root of this machine/],
    ] as const) {
      const { code, stderr } = await run([command, path]);
      assert.equal(code, 2, command);
      assert.match(stderr, why);
    }
  });
});

describe("berth check", () => {
  const check = async (files: Record<string, string | object>, ...flags: string[]): Promise<Ran> => {
    const folder = folderWith(files);
    const before = contentsOf(folder);
    const ran = await run(["check", ...flags], folder);
    assert.deepEqual(contentsOf(folder), before, "it writes nothing");
    return ran;
  };

  test("says every problem of every server with its place, and exits with 1", async () => {
    const { code, stdout } = await check({
      "mcps.json": {
        good: { definition: "good.ts", options: { gret: {} } },
        broken: { definition: "lib/broken.ts" },
        gone: { definition: "gone.ts" },
        part: { definition: "part.ts", enabeld: true },
        throws: { definition: "throws.ts", tools: { nothing: { description: "None" } } },
        out: { definition: "../out.ts" },
      },
      "good.ts": GREET,
      "lib/broken.ts": BROKEN,
      "part.ts": `import { word } from "./word.ts";\n${GREET.replace("Hello", "${word}")}`,
      "throws.ts": `throw new Error("no reason");\n${GREET}`,
    });
    assert.equal(code, 1, stdout);
    for (const line of [
      /^mcps\.json:\d+:15 \/good\/options\/gret: warning: .*no such tool/m,
      /^lib\/broken\.ts:\d+:\d+: error: /m,
      /^mcps\.json:\d+:19 \/gone\/definition: error: There is no file "gone\.ts"/m,
      /^mcps\.json:\d+:\d+ \/throws\/tools\/nothing: error \(tool nothing\): .*no tool function "nothing"/m,
      /^part\.ts:1:\d+: error: .*\.\/word\.ts/m,
      /^throws\.ts:1:\d+: error: Its functions cannot be called.*no reason/m,
      /^mcps\.json:\d+:5 \/part\/enabeld: error: .*no field "enabeld"/m,
      /^mcps\.json:\d+:19 \/out\/definition: error: .*outside/m,
      /^6 servers in this folder: \d+ errors, \d+ warnings?$/m,
    ])
      assert.match(stdout, line);
  });

  test("exits with 0 for warnings, and with 1 for type errors with --strict and for a tool that is left out", async () => {
    const wrong = { "mcps.json": { a: { definition: "a.ts" } }, "a.ts": GREET.replace("string {", "number {") };
    const [loose, strict] = [await check(wrong), await check(wrong, "--strict", "--json")];
    assert.deepEqual([loose.code, strict.code], [0, 1]);
    assert.match(loose.stdout, /^a\.ts:3:3: warning: .*\[type-error\]$/m);
    const [problem, ...others] = JSON.parse(strict.stdout).problems;
    assert.deepEqual(others, []);
    assert.deepEqual([problem.file, problem.line, problem.severity], ["a.ts", 3, "error"]);
    const left = await check({ ...wrong, "a.ts": `${GREET}export function bad(f: () => void): void {\n  f();\n}\n` });
    assert.equal(left.code, 1);
    assert.match(left.stdout, /^a\.ts:5:\d+: error \(tool bad\)/m);
  });

  test("exits with 2 where nothing can be checked, and says what to do", async () => {
    mkdirSync(join(place, "empty"));
    for (const [path, why] of [
      ["empty", /empty has no mcps\.json.*create it with `berth init empty`/],
      ["nowhere", /there is no folder nowhere; create it with `berth init nowhere`/],
      [join(packageRoot, "boot"), /is a boot image: serve it with --image/],
      ["cache", /has no mcps\.json|no folder/],
    ] as const) {
      const { stderr } = await exits(2, run(["check", path]));
      assert.match(stderr, why);
    }
  });
});

describe("berth serve of a folder", () => {
  test("compiles what changed since the last time, refuses servers with errors, and keeps all data there", async (t) => {
    const mcps = { hello: { definition: "hello.ts" }, other: { definition: "other.ts" } };
    const folder = folderWith({ "mcps.json": mcps, "hello.ts": GREET, "other.ts": `// other\n${GREET}` });
    const first = await serve(t, [folder]);
    assert.match(first.startLog, /^Compiled 2 definitions of /m);
    const { content } = await call(`${first.url}/mcp/hello`, "greet", { name: "Ada" });
    assert.equal(content[0].text, "Hello, Ada!");
    assert.deepEqual(readdirSync(join(folder, ".berth")).toSorted(), [".gitignore", "data", "image"]);
    assert.equal(lstatSync(join(folder, ".berth/data")).mode & 0o077, 0);
    await first.end("SIGTERM");

    write(folder, "other.ts", BROKEN);
    write(folder, "mcps.json", { ...mcps, gone: { definition: "gone.ts" } });
    // The working folder is the one that is served, also for other commands.
    const second = await serve(t, [], folder);
    assert.match(second.startLog, /^Compiled 1 definition of this folder\.$/m);
    assert.match(second.startLog, /^other\.ts:\d+:\d+: error: /m);
    assert.match(second.startLog, /^mcps\.json:\d+:19 \/gone\/definition: error: There is no file "gone\.ts"/m);
    assert.match(
      second.startLog,
      /^\d errors in this folder: servers with errors are refused, and the others are served/m,
    );
    assert.equal((await call(`${second.url}/mcp/hello`, "greet", { name: "Bo" })).content[0].text, "Hello, Bo!");
    const refused = await withStatus(503, post(`${second.url}/mcp/gone`, request("tools/list")));
    assert.match(refused.body.error.message, /the file "gone\.ts" was not found/);
    assert.equal((await post(`${second.url}/mcp/other`, request("tools/list"))).status, 503);
    assert.equal((await run(["token", "list"], folder)).code, 0, "its store is found");
    await second.end("SIGTERM");

    write(folder, "gone.ts", `// gone\n${GREET}`);
    write(folder, "other.ts", `// other\n${GREET}`);
    const third = await serve(t, [folder]);
    for (const server of ["gone", "other", "hello"])
      assert.equal((await post(`${third.url}/mcp/${server}`, request("tools/list"))).status, 200, server);
    await third.end("SIGTERM");
    assert.doesNotMatch((await serve(t, [folder])).startLog, /Compil/, "nothing changed");
  });

  test("ends with 1 and every problem where the list cannot be read, and leaves the last image", async () => {
    const folder = folderWith({ "mcps.json": '{ "hello": { "definition": "hello.ts" }, }', "hello.ts": GREET });
    const { stderr } = await exits(1, run(["serve", "--port", "0", folder]));
    assert.match(stderr, /^folder-\d+\/mcps\.json:1:42: error: Not JSON/m);
    assert.match(stderr, /its list of servers cannot be read, so nothing is served/);
    assert.deepEqual(readdirSync(join(folder, ".berth")), [".gitignore"]);
  });

  test("writes nothing through a link in the place of its data", async () => {
    for (const name of [".berth", ".berth/image", ".berth/image/content", ".berth/data"]) {
      const target = folderWith({ "content/precious.txt": "precious", "precious.txt": "precious" });
      const folder = folderWith({ "mcps.json": { hello: { definition: "hello.ts" } }, "hello.ts": GREET });
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      symlinkSync(target, join(folder, name));
      const before = contentsOf(target);
      const { code, stderr } = await run(["serve", "--port", "0", folder]);
      assert.equal(code, 2, name);
      assert.match(stderr, new RegExp(`${name} is a link, and Berth makes and removes files there: remove it`));
      assert.deepEqual(contentsOf(target), before);
    }
  });
});

describe("berth dev of a folder", () => {
  test("follows the list of servers, their entries, definitions and what these import", async (t) => {
    const word = 'export const word = "Hello";\n';
    const source = [
      'import type { ToolContext } from "berth";',
      'import { word } from "./lib/word.ts";',
      "/** Greets. */",
      "export function greet(name: string, { options }: ToolContext): string {",
      '  return `${options["word"] ?? word}, ${name}!`;',
      "}",
    ].join("\n");
    const hello = { definition: "greeter.ts" };
    const folder = folderWith({ "mcps.json": { hello }, "greeter.ts": source, "lib/word.ts": word });
    const dev = await startDev(t, {}, [], { folder, env });
    const greet = async (server: string): Promise<string> =>
      (await call(`${dev.url}/mcp/${server}`, "greet", { name: "Ada" })).content[0].text as string;
    const edit = async (content: string | object, printed: RegExp): Promise<void> => {
      const from = dev.output().length;
      write(folder, "mcps.json", content);
      await until(() => printed.test(dev.output().slice(from)), String(printed));
    };
    const called = await run(["call", "hello.greet", "name=Ada"], folder);
    const told = `Calling ${dev.url} (where berth dev serves this folder)\n`;
    assert.deepEqual([called.stdout, called.stderr], ["Hello, Ada!\n", told]);

    write(folder, "lib/word.ts", word.replace("Hello", "Ahoy"));
    await until(async () => (await greet("hello")) === "Ahoy, Ada!");
    const options = { greet: { word: "Hi" } };
    await edit({ hello: { ...hello, options }, twin: hello }, /twin {2}http\S+ {2}1 tool\n/);
    assert.deepEqual([await greet("hello"), await greet("twin")], ["Hi, Ada!", "Ahoy, Ada!"]);

    await edit(`{ "hello": `, /mcps\.json:1:\d+: error: Not JSON[^]*what was served before is served until it can/);
    assert.equal(await greet("twin"), "Ahoy, Ada!");
    await edit({ twin: hello }, /can be read again[^]*hello {2}is not served any more/);
    assert.equal((await post(`${dev.url}/mcp/hello`, request("tools/list"))).status, 404);

    await edit({ twin: hello, late: { definition: "late.ts" } }, /mcps\.json:\d+:19 \/late\/definition: error/);
    assert.equal(await greet("twin"), "Ahoy, Ada!");
    write(folder, "late.ts", BROKEN);
    await dev.printed(/late\.ts:\d+:\d+: error: /);
    write(folder, "late.ts", GREET);
    await dev.printed(/late {2}http\S+ {2}1 tool\n/);
    assert.equal(await greet("late"), "Hello, Ada!");
    assert.deepEqual(
      readdirSync(join(folder, ".berth")).toSorted(),
      [".gitignore", "dev", "dev-address"],
      "what is served is left alone",
    );
  });

  test("tells once of each definition that no server has, and how to serve it", async (t) => {
    const folder = folderWith({
      "mcps.json": { hello: { definition: "lib/hello.ts" }, shop: { definition: "lib/hello.ts" } },
      "lib/hello.ts": `export { word } from "./word.ts";\n${GREET}`,
      "lib/word.ts": 'export const word = "Hello";\n',
      "notes.ts": GREET,
      "lib/shop.ts": GREET,
      "types.ts": "export interface Word {\n  word: string;\n}\n",
      "globals.d.ts": "export declare const word: string;\n",
      "notes.test.ts": GREET,
      "vitest.config.ts": "export default {};\n",
      "node_modules/a.ts": GREET,
    });
    const dev = await startDev(t, {}, [], { folder, env });
    const told = (): string[] => [...dev.output().matchAll(/^\S+ (.*: no server of .*)$/gm)].map(([, line]) => line!);
    assert.deepEqual(told(), [
      'lib/shop.ts: no server of mcps.json uses it; add an entry with "definition": "lib/shop.ts"',
      'notes.ts: no server of mcps.json uses it; add "notes": { "definition": "notes.ts" }',
    ]);
    write(folder, "later.ts", "");
    write(folder, "notes.ts", `${GREET}// changed\n`);
    write(folder, "later.ts", GREET);
    await dev.printed(/ later\.ts: no server of mcps\.json uses it; add "later": \{ "definition": "later\.ts" \}\n/);
    write(folder, "mcps.json", { hello: { definition: "lib/hello.ts" }, notes: { definition: "notes.ts" } });
    await dev.printed(/notes {2}http\S+ {2}1 tool\n/);
    assert.equal(told().length, 3);
  });

  test("says nothing of packages that npm is about to lock", async (t) => {
    const manifest = { private: true, type: "module" };
    const folder = folderWith({ "mcps.json": { hello: { definition: "hello.ts" } }, "hello.ts": GREET });
    write(folder, "package.json", manifest);
    const dev = await startDev(t, {}, [], { folder, env });
    const edit = async (word: string): Promise<void> => {
      write(folder, "hello.ts", GREET.replace("Hello", word));
      const greet = (): Promise<object> => call(`${dev.url}/mcp/hello`, "greet", { name: "Ada" });
      await until(async () => JSON.stringify(await greet()).includes(word));
    };
    await edit("Ahoy");
    // It notices a change when berth dev does.
    const watcher = watch(join(folder, "package.json"), { awaitWriteFinish: { stabilityThreshold: SETTLED_MS } });
    t.after(() => watcher.close());
    await once(watcher, "ready");
    let tries = 0;
    await inOneOf(10, async () => {
      const from = dev.output().length;
      // npm writes the two files one after the other; here the first becomes again what fits the second.
      const noticed = once(watcher, "change");
      write(folder, "package.json", { ...manifest, dependencies: { "left-alone": "1" } });
      await noticed;
      write(folder, "package.json", manifest);
      await edit(`Moin ${++tries}`);
      assert.doesNotMatch(dev.output().slice(from), /left-alone/);
    });
  });

  test("gives the values of --env-file to the servers whose entries name them", async (t) => {
    const tell = [
      'import type { ToolContext } from "berth";',
      "/** Tells. */",
      'export const tell = async (c: ToolContext): Promise<string> => String(await c.secret("API_TOKEN"));',
    ].join("\n");
    const level = "export const tell = (): string => String(process.env.LEVEL);\n";
    const mcps = {
      listed: { definition: "tell.ts", secrets: ["API_TOKEN"] },
      other: { definition: "tell.ts" },
      set: { definition: "level.ts", env: { LEVEL: "${LEVEL}" } },
      unset: { definition: "level.ts" },
    };
    const values = "API_TOKEN=the first value\nLEVEL=a\n";
    const folder = folderWith({ "mcps.json": mcps, "tell.ts": tell, "level.ts": level, ".env": values });
    const dev = await startDev(t, {}, ["--env-file", ".env"], { folder, env });
    const told = async (server: string): Promise<string> =>
      (await call(`${dev.url}/mcp/${server}`, "tell")).content[0].text as string;
    assert.equal(await told("listed"), "the first value");
    assert.match(await told("other"), /not given the secret "API_TOKEN"/);
    assert.deepEqual([await told("set"), await told("unset")], ["a", "undefined"]);
    const warnings = /^level\.ts:1:\d+: warning: process\.env\.LEVEL is undefined unless .* entry "(\w+)"/gm;
    const warned = (text: string): string[] => Array.from(text.matchAll(warnings), ([, server]) => server!);
    const checked = await run(["check"], folder);
    assert.deepEqual([warned(dev.output()), warned(checked.stdout)], [["unset"], ["unset"]]);
  });
});

describe("berth grant in a folder of one's own", () => {
  const report = (word: string): string =>
    [
      "/**",
      " * @secret API_TOKEN to read issues",
      " * @network api.example.org",
      " */",
      "/** Tells. */",
      `export const tell = (): string => "${word}";`,
    ].join("\n");
  const LIST = [
    "{",
    '    "report": { "definition": "report.ts",',
    '        "env": { "REGION": "known to few" } },',
    '    "hello" : {"definition":"hello.ts"}',
    "}",
    "",
  ].join("\r\n");

  test("lists what a definition requests, and writes what is granted into mcps.json, whose other bytes stay", async () => {
    const folder = folderWith({ "mcps.json": LIST, "report.ts": report("one"), "hello.ts": GREET });
    const before = contentsOf(folder);
    const listed = await exits(0, run(["grant", "report"], folder));
    assert.equal(
      listed.stdout,
      "@secret API_TOKEN to read issues (report.ts:2:4)\n@network api.example.org (report.ts:3:4)\n",
    );
    const near = await run(["grant", "report", "--secret", "API_TOKE"], folder);
    assert.match(near.stderr, /does not request the secret "API_TOKE", .*did you mean "API_TOKEN"\?/);
    assert.deepEqual(contentsOf(folder), before, "nothing is granted, and nothing else is written");

    const one = await exits(0, run(["grant", "report", "--secret", "API_TOKEN"], folder));
    assert.equal(one.stdout, "+ secret API_TOKEN\n");
    assert.match(one.stderr, /^\+ +"secrets": \[$[^]*^\+ +"API_TOKEN"$/m);
    assert.doesNotMatch(one.stderr, /known to few/);
    const all = await run(["grant", "report", "--all"], folder);
    assert.equal(all.stdout, "+ network api.example.org\n", all.stderr);
    const after = readFileSync(join(folder, "mcps.json"), "utf8");
    assert.deepEqual(JSON.parse(after).report, {
      definition: "report.ts",
      env: { REGION: "known to few" },
      secrets: ["API_TOKEN"],
      network: ["api.example.org"],
    });
    assert.equal(after.replaceAll(/,\s*"(?:secrets|network)": \[[^\]]*\]/g, ""), LIST);
    assert.match((await run(["grant", "report", "--all"], folder)).stderr, /has all that its definition requests/);
    assert.deepEqual(contentsOf(folder), { ...before, "mcps.json": after });
  });

  test("names the file in which an entry stands, and the lines to add there", async () => {
    const files = { "mcps.json": { report: { config_cid: "entry.json" } }, "entry.json": { definition: "report.ts" } };
    const folder = folderWith({ ...files, "report.ts": report("one") });
    const { stderr } = await exits(2, run(["grant", "report", "--all"], folder));
    assert.match(
      stderr,
      /stands in entry\.json: add "secrets": \["API_TOKEN"\], "network": \["api\.example\.org"\] there/,
    );
  });
});
