import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { call, post, request } from "../support/berth.ts";
import { exits } from "../support/commands.ts";
import { startDev, type Dev } from "../support/dev-process.ts";
import { freePort } from "../support/free-port.ts";
import { berthInProcess } from "../support/in-process.ts";
import { temporaryFolder, type Ending } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const GREET = "/** Greets. */\nexport function greet(name: string): string {\n  return `Hello, ${name}!`;\n}\n";
const SHELF = [
  'import { readFile } from "node:fs/promises";',
  'import type { ToolContext } from "berth";',
  "/** Reads. */",
  "export function read({ folders }: ToolContext): Promise<string> {",
  '  return readFile(`${folders["shelf"]}/a.txt`, "utf8");',
  "}",
].join("\n");
const WELCOME = GREET.replace("greet(", "welcome(");

describe("berth dev of several files", () => {
  let dev: Dev;
  const ends: (() => unknown)[] = [];
  const onEnd = { after: (end: () => unknown) => void ends.unshift(end) };
  before(async () => {
    const shelf = temporaryFolder(onEnd);
    await chmod(shelf, 0o755);
    await writeFile(join(shelf, "a.txt"), "on the shelf");
    const files = {
      "hello.ts": GREET,
      "broken.ts": GREET,
      "loading.ts": GREET,
      "shop.ts":
        'import prices from "./prices.csv";\n/** Lists. */\nexport function list(): string {\n  return prices;\n}\n',
      "prices.csv": "bread,1",
      "importing.ts": 'import { word } from "./word.ts";\nexport function say(): string {\n  return word;\n}\n',
      "word.ts": 'export const word = "one";\n',
      "aliased.ts":
        'import { word } from "@/word";\n/** Says. */\nexport function say(): string {\n  return word;\n}\n',
      "words/word.ts": 'export const word = "three";\n',
      "shelf.ts": SHELF,
      "wrong.ts": GREET.replace("string {", "number {"),
      "silent.ts": GREET.replace("export ", ""),
    };
    const definitions = Object.keys(files).filter((file) => file.endsWith(".ts") && !file.endsWith("word.ts"));
    const folders = { shelf: { path: shelf }, theirs: { path: "/usr", tenants: ["acme"] } };
    const env = { BERTH_FOLDERS: JSON.stringify(folders), BERTH_TYPO: "1" };
    dev = await startDev(onEnd, files, ["--strict", ...definitions], { env });
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const save = (file: string, text: string): Promise<void> => writeFile(join(dev.folder, file), text);
  const textOf = async (server: string, tool: string, args: Record<string, unknown> = {}): Promise<string> =>
    (await call(`${dev.url}/mcp/${server}`, tool, args)).content[0].text as string;

  test("shows type errors and serves, and does not serve a file that exports nothing", () => {
    assert.match(dev.output(), /wrong {2}http\S+ {2}1 tool, 1 error\n/);
    assert.match(
      dev.output(),
      /wrong\.ts:3:3: error: Type 'string' is not assignable to type 'number'\. \[type-error\]/,
    );
    assert.match(dev.output(), /silent {2}http\S+ {2}not served, 1 error\n/);
    assert.match(dev.output(), /silent\.ts:2:10: error: .*greet looks like a tool: put "export" before it/);
  });

  test("serves a file, shows each call, and serves what is saved", async () => {
    assert.equal(await textOf("hello", "greet", { name: "Ada" }), "Hello, Ada!");
    await dev.printed(/^\d\d:\d\d:\d\d hello\.greet name="Ada" → "Hello, Ada!" [\d.]+ ms$/m);
    await save("hello.ts", WELCOME);
    await dev.printed(/^ +welcome {2}Greets\.$/m);
    assert.deepEqual(await toolNames(`${dev.url}/mcp/hello`), ["welcome"]);
  });

  test("serves again when an imported text or module is saved", async () => {
    assert.deepEqual([await textOf("shop", "list"), await textOf("importing", "say")], ["bread,1", "one"]);
    await save("prices.csv", "bread,2");
    await save("word.ts", 'export const word = "two";\n');
    await until(async () => (await textOf("shop", "list")) === "bread,2");
    await until(async () => (await textOf("importing", "say")) === "two");
  });

  test("serves again when tsconfig.json appears, is saved, or what its aliases lead to is saved", async () => {
    const tsconfig = (paths: object): string => JSON.stringify({ compilerOptions: { paths } });
    assert.match(dev.output(), /aliased {2}http\S+ {2}not served, 1 error\n/);
    await save("tsconfig.json", tsconfig({ "@/*": ["./words/*"] }));
    await dev.printed(/^ +say {2}Says\.$/m);
    assert.equal(await textOf("aliased", "say"), "three");
    await save("words/word.ts", 'export const word = "four";\n');
    await until(async () => (await textOf("aliased", "say")) === "four");
    await save("words/other.ts", 'export const word = "five";\n');
    await save("tsconfig.json", tsconfig({ "@/word": ["./words/other"] }));
    await until(async () => (await textOf("aliased", "say")) === "five");
  });

  test("gives its servers the folders of BERTH_FOLDERS", async () => {
    assert.equal(await textOf("shelf", "read"), "on the shelf");
  });

  test("shows a mistake with its file, line and column, and serves again when it is fixed", async () => {
    await save("broken.ts", `${GREET}export function x(`);
    await dev.printed(/broken\.ts:5:\d+: error: .*\[syntax-error\]/);
    assert.match(await (await fetch(`${dev.url}/mcp`)).text(), /expected/);
    await save("broken.ts", GREET.replace("Hello", "Welcome back"));
    await dev.printed(/broken\.ts:5:[^]*broken {2}http\S+ {2}1 tool\n/);
    assert.equal(await textOf("broken", "greet", { name: "Ada" }), "Welcome back, Ada!");
  });

  test("shows what does not load, before it is called", async () => {
    await save("loading.ts", `await fetch("https://example.com/");\n${GREET}`);
    await dev.printed(/loading {2}http\S+ {2}1 tool, 1 error\n/);
    await dev.printed(/loading\.ts:1:7: error: .*top level fails: .*move "fetch" and the like into the function/);
  });

  test("leaves nothing behind", async () => {
    assert.match(dev.output(), /^[\d:]+ warning: BERTH_TYPO is not a setting/m);
    assert.doesNotMatch(dev.output(), /^\{/m, "without --json");
    assert.notDeepEqual(await readdir(dev.temporary), []);
    await dev.stop();
    assert.deepEqual(await readdir(dev.temporary), []);
  });
});

test("berth dev serves what is saved while it starts", async (t) => {
  const port = await freePort();
  const file = join(temporaryFolder(t), "hello.ts");
  await writeFile(file, GREET);
  const starting = startDev(t, {}, ["--port", String(port), file]);
  // Ready: it has read the file once. It is not watched yet.
  await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.ok);
  await writeFile(file, WELCOME);
  const dev = await starting;
  await dev.printed(/^ +welcome {2}Greets\.$/m);
  assert.deepEqual(await toolNames(`${dev.url}/mcp/hello`), ["welcome"]);
});

test("berth dev --new --open creates definitions, prints where a client finds them, and opens the first page", async (t) => {
  const { opened, ...browser } = await browserOf(t, (file) => `printf '%s' "$1" > ${file}`);
  const dev = await startDev(t, {}, ["--new", "--open", "say_hello.ts", "up.sh"], browser);
  assert.deepEqual((await readdir(dev.folder)).sort(), ["say_hello.ts", "up.sh"]);
  assert.match(dev.output(), new RegExp(`berth connect ${dev.url}/mcp/say_hello --client claude-code\n`));
  const page = `${dev.url}/mcp/meta/say_hello`;
  await until(async () => (await readFile(opened, "utf8").catch(() => "")) === page);
  assert.ok(dev.output().includes(page));
  assert.equal((await call(`${dev.url}/mcp/say_hello`, "greet", { name: "Ada" })).content[0].text, "Hello, Ada!");
  assert.equal((await call(`${dev.url}/mcp/up`, "up", { name: "Ada" })).content[0].text, "Hello, Ada!\n");
});

test("berth dev --quiet shows only failed calls, and --open goes on without a browser", async (t) => {
  const files = { "hello.ts": `${GREET}export function fail(): string {\n  throw new Error("no");\n}\n` };
  const dev = await startDev(t, files, ["--quiet", "--open", "hello.ts"], await browserOf(t, () => "exit 3"));
  await dev.printed(/No browser could be opened; open http/);
  await call(`${dev.url}/mcp/hello`, "greet", { name: "Ada" });
  await call(`${dev.url}/mcp/hello`, "fail");
  await dev.printed(/hello\.fail failed/);
  assert.doesNotMatch(dev.output(), /hello\.greet/);
});

test("berth dev --folder gives code a folder, and --json prints lines of JSON alone", async (t) => {
  const shelf = temporaryFolder(t);
  await chmod(shelf, 0o755);
  await writeFile(join(shelf, "a.txt"), "on the shelf");
  const files = { "shelf.ts": SHELF, "wrong.ts": GREET.replace("string {", "number {") };
  const dev = await startDev(t, files, ["--json", "--folder", `shelf=${shelf}`, "shelf.ts", "wrong.ts"]);
  assert.equal((await call(`${dev.url}/mcp/shelf`, "read")).content[0].text, "on the shelf");
  await dev.printed(/shelf\.read.*on the shelf/);
  await dev.stop();
  const lines = dev.output().trim().split("\n");
  for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
  const { stderr } = await exits(2, berthInProcess(["dev", "--port", "0", "--folder", "x", "examples/notes.ts"]));
  assert.match(stderr, /--folder.*write it as in --folder data=\.\/data/);
});

test("berth dev reports every problem of its files, and starts nothing", async (t) => {
  const cwd = temporaryFolder(t);
  await writeFile(join(cwd, "hello.ts"), GREET);
  const files = ["gone.ts", "notes.txt", "hello.ts", "hello.sh"];
  await writeFile(join(cwd, "hello.sh"), "#!/bin/sh\n");
  const { stderr } = await exits(2, berthInProcess(["dev", "--port", "0", ...files], { cwd }));
  assert.match(stderr, /gone\.ts: there is no such file; create it with `berth dev --new gone\.ts`/);
  assert.match(stderr, /notes\.txt: a definition is a \.ts or a \.sh file/);
  assert.match(stderr, /hello\.sh: hello\.ts is already the server "hello"/);
});

test("berth dev ends while it handles a change that adds another file", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  const slow = join(dev.folder, "package.json");
  execFileSync("mkfifo", [slow]);
  await writeFile(join(dev.folder, "name.ts"), 'export const name = "Ada";\n');
  await writeFile(join(dev.folder, "hello.ts"), `export * from "./name.ts";\n${GREET}`);
  // It reads the package.json, and waits there.
  const answer = await open(slow, "w");
  const stopped = dev.stop();
  await rm(slow);
  await answer.write("{}");
  await answer.close();
  await stopped;
});

/** A stand-in for the browser's starter, whose line of shell gets the page as `$1`. */
async function browserOf(t: Ending, line: (opened: string) => string) {
  const folder = temporaryFolder(t);
  const opened = join(folder, "opened");
  await writeFile(join(folder, "xdg-open"), `#!/bin/sh\n${line(opened)}\n`, { mode: 0o755 });
  return { opened, env: { PATH: `${folder}:${process.env["PATH"]}` } };
}

async function toolNames(url: string): Promise<string[]> {
  const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
  return body.result.tools.map(({ name }: { name: string }) => name);
}
