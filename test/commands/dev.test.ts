import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { call, post, request } from "../support/berth.ts";
import { spawnDev, startDev } from "../support/dev-process.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";

const INITIALIZE = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
const GREET = "/** Greets. */\nexport function greet(name: string): string {\n  return `Hello, ${name}!`;\n}\n";

test("berth dev serves a file, and what it becomes when it is saved", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  const { content } = await call(`${dev.url}/mcp/hello`, "greet", { name: "Ada" });
  assert.deepEqual(content, [{ type: "text", text: "Hello, Ada!" }]);

  await writeFile(join(dev.folder, "hello.ts"), GREET.replace("greet(", "welcome("));
  await dev.printed(/^ +welcome {2}Greets\.$/m);
  assert.deepEqual(await toolNames(`${dev.url}/mcp/hello`), ["welcome"]);
});

test("berth dev serves what is saved while it starts", async (t) => {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "berth-dev-test-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "hello.ts");
  await writeFile(file, GREET);
  const starting = startDev(t, {}, ["--port", String(port), file]);
  // Ready: it has read the file once. It is not watched yet.
  while (!(await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.ok) await sleep(2);
  await writeFile(file, GREET.replace("greet(", "welcome("));
  const dev = await starting;
  await dev.printed(/^ +welcome {2}Greets\.$/m);
  assert.deepEqual(await toolNames(`${dev.url}/mcp/hello`), ["welcome"]);
});

test("berth dev serves again when a file that is imported as text is saved", async (t) => {
  const source =
    'import prices from "./prices.csv";\n/** Lists. */\nexport function list(): string {\n  return prices;\n}\n';
  const dev = await startDev(t, { "shop.ts": source, "prices.csv": "bread,1" }, ["shop.ts"]);
  const list = async (): Promise<string> => (await call(`${dev.url}/mcp/shop`, "list")).content[0].text as string;
  assert.equal(await list(), "bread,1");
  await writeFile(join(dev.folder, "prices.csv"), "bread,2");
  await until(async () => (await list()) === "bread,2");
});

test("berth dev gives its servers the folders that it is started with", async (t) => {
  const shelf = await mkdtemp(join(tmpdir(), "berth-dev-test-"));
  t.after(() => rm(shelf, { recursive: true, force: true }));
  await chmod(shelf, 0o755);
  await writeFile(join(shelf, "a.txt"), "on the shelf");
  const source = [
    'import { readFile } from "node:fs/promises";',
    'import type { ToolContext } from "berth";',
    "/** Reads. */",
    "export function read({ folders }: ToolContext): Promise<string> {",
    '  return readFile(`${folders["shelf"]}/a.txt`, "utf8");',
    "}",
  ].join("\n");
  const env = {
    BERTH_FOLDERS: JSON.stringify({ shelf: { path: shelf }, theirs: { path: "/usr", tenants: ["acme"] } }),
  };
  const dev = await startDev(t, { "shelf.ts": source }, ["shelf.ts"], { env });
  assert.deepEqual((await call(`${dev.url}/mcp/shelf`, "read")).content, [{ type: "text", text: "on the shelf" }]);
  assert.doesNotMatch(dev.output(), /error|warning/);
});

test("berth dev tells clients that listen of a saved change", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "legacy" } });
  const heard = new Promise<void>((heardOf) => {
    client.setNotificationHandler("notifications/tools/list_changed", () => heardOf());
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${dev.url}/mcp/hello`)));
  t.after(() => client.close());
  await client.listTools();

  await writeFile(join(dev.folder, "hello.ts"), `${GREET}export const part = (name: string): string => name;\n`);
  await heard;
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name),
    ["greet", "part"],
  );
});

test("berth dev follows the files that a definition imports", async (t) => {
  const files = {
    "hello.ts": 'import { word } from "./word.ts";\nexport function say(): string {\n  return word;\n}\n',
    "word.ts": 'export const word = "one";\n',
  };
  const dev = await startDev(t, files, ["hello.ts"]);
  assert.equal((await call(`${dev.url}/mcp/hello`, "say")).content[0].text, "one");

  await writeFile(join(dev.folder, "word.ts"), 'export const word = "two";\n');
  await dev.printed(/hello.*\n[^]*hello {2}http/);
  assert.equal((await call(`${dev.url}/mcp/hello`, "say")).content[0].text, "two");
});

test("berth dev shows a mistake with its file, line and column, and serves again when it is mended", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  await writeFile(join(dev.folder, "hello.ts"), `${GREET}export function x(`);
  await dev.printed(/hello\.ts:5:\d+: error: .*\[syntax-error\]/);
  const page = await (await fetch(`${dev.url}/mcp`)).text();
  assert.match(page, /expected/);

  await writeFile(join(dev.folder, "hello.ts"), GREET.replace("Hello", "Welcome back"));
  await dev.printed(/error[^]*hello {2}http\S+ {2}1 tool\n/);
  assert.equal((await call(`${dev.url}/mcp/hello`, "greet", { name: "Ada" })).content[0].text, "Welcome back, Ada!");
});

test("berth dev tells type errors and serves, and does not serve what exports nothing", async (t) => {
  const wrong = GREET.replace("string {", "number {");
  const files = { "hello.ts": wrong, "silent.ts": GREET.replace("export ", "") };
  const dev = await startDev(t, files, ["--strict", "hello.ts", "silent.ts"]);
  assert.match(dev.output(), /hello {2}http\S+ {2}1 tool, 1 error\n/);
  assert.match(dev.output(), /hello\.ts:3:3: error: Type 'string' is not assignable to type 'number'\. \[type-error\]/);
  assert.match(dev.output(), /silent {2}http\S+ {2}not served, 1 error\n/);
  assert.match(dev.output(), /silent\.ts:2:10: error: .*greet looks like a tool: put "export" before it/);
});

test("berth dev shows what functions print, and where they threw with the line; callers hear the message", async (t) => {
  const text =
    GREET.replace("return", 'if (name === "") throw new TypeError("nobody to greet");\n  return') +
    "export async function noisy(): Promise<string> {\n" +
    '  console.log("one", 1);\n  void Promise.reject(new Error("forgotten"));\n' +
    '  await new Promise((done) => setTimeout(done, 1));\n  return "fine";\n}\n';
  const dev = await startDev(t, { "hello.ts": text }, ["hello.ts"]);
  const { content, isError } = await call(`${dev.url}/mcp/hello`, "greet", { name: "" });
  assert.deepEqual([isError, content[0].text], [true, "TypeError: nobody to greet"]);
  await dev.printed(/hello\.greet name="" failed .* ms: TypeError: nobody to greet\n +at greet \(hello\.ts:3:26\)\n/);
  assert.equal((await call(`${dev.url}/mcp/hello`, "noisy")).content[0].text, "fine");
  await dev.printed(/hello\.noisy info: one 1\n/);
  await dev.printed(
    /hello\.noisy error: a promise was rejected and nobody handled it: forgotten\n.*noisy \(hello\.ts:8:23\)/,
  );
  await dev.printed(/> 3 \| {3}if \(name === ""\) throw new TypeError\("nobody to greet"\);\n +\| {26}\^/);
});

test("berth dev shows each call with arguments, result and time; with --quiet only what goes wrong", async (t) => {
  const files = { "hello.ts": `${GREET}export function fail(): string {\n  throw new Error("no");\n}\n` };
  const dev = await startDev(t, files, ["hello.ts"]);
  await call(`${dev.url}/mcp/hello`, "greet", { name: "Ada" });
  await dev.printed(/^\d\d:\d\d:\d\d hello\.greet name="Ada" → "Hello, Ada!" [\d.]+ ms$/m);
  const quiet = await startDev(t, files, ["--quiet", "hello.ts"]);
  await call(`${quiet.url}/mcp/hello`, "greet", { name: "Ada" });
  await call(`${quiet.url}/mcp/hello`, "fail");
  await quiet.printed(/hello\.fail failed/);
  assert.doesNotMatch(quiet.output(), /hello\.greet/);
});

test("berth dev --open opens the page of its first server, and goes on where there is no browser", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "berth-dev-test-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const opened = join(folder, "opened");
  await writeFile(join(folder, "xdg-open"), `#!/bin/sh\nprintf '%s' "$1" > ${opened}\n`, { mode: 0o755 });
  const withBrowser = { env: { PATH: `${folder}:${process.env["PATH"]}` } };
  const dev = await startDev(t, { "hello.ts": GREET }, ["--open", "hello.ts"], withBrowser);
  const page = `${dev.url}/mcp/meta/hello`;
  await until(async () => (await readFile(opened, "utf8").catch(() => "")) === page);
  assert.ok(dev.output().includes(page));

  await writeFile(join(folder, "xdg-open"), "#!/bin/sh\nexit 3\n");
  const without = await startDev(t, { "hello.ts": GREET }, ["--open", "hello.ts"], withBrowser);
  await without.printed(/No browser could be opened; open http/);
  assert.deepEqual(await toolNames(`${without.url}/mcp/hello`), ["greet"]);
});

test("berth dev that is started again at its port tells clients to begin a new session, and they go on", async (t) => {
  const port = await freePort();
  const again = ["--port", String(port), "hello.ts"];
  const first = await startDev(t, { "hello.ts": GREET }, again);
  const url = `${first.url}/mcp/hello`;
  const { headers } = await post(url, request("initialize", INITIALIZE));
  const session = { "Mcp-Session-Id": headers.get("mcp-session-id")!, "MCP-Protocol-Version": "2025-06-18" };
  assert.equal((await post(url, request("tools/list"), session)).status, 200);
  await first.stop();
  const second = await startDev(t, {}, again, { folder: first.folder });
  const lost = await post(`${second.url}/mcp/hello`, request("tools/list"), session);
  assert.deepEqual([lost.status, lost.body.error.message], [404, "No such session; initialize again"]);
});

test("berth dev tells what does not load, before anybody calls it", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  await writeFile(join(dev.folder, "hello.ts"), `await fetch("https://example.com/");\n${GREET}`);
  await dev.printed(/hello {2}http\S+ {2}1 tool, 1 error\n/);
  await dev.printed(/hello\.ts:1:7: error: .*top level fails: .*move "fetch" and the like into the function/);
});

test("berth dev --new makes a TypeScript and a shell definition that work, and prints where a client finds them", async (t) => {
  const dev = await startDev(t, {}, ["--new", "say_hello.ts", "up.sh"]);
  assert.deepEqual((await readdir(dev.folder)).sort(), ["say_hello.ts", "up.sh"]);
  assert.match(dev.output(), new RegExp(`berth connect ${dev.url}/mcp/say_hello --client claude-code\n`));
  assert.equal((await call(`${dev.url}/mcp/say_hello`, "greet", { name: "Ada" })).content[0].text, "Hello, Ada!");
  assert.equal((await call(`${dev.url}/mcp/up`, "up", { name: "Ada" })).content[0].text, "Hello, Ada!\n");
});

test("berth dev says everything that is wrong with its files, and starts nothing", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "berth-dev-test-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "hello.ts"), GREET);
  await writeFile(join(folder, "hello.sh"), "#!/bin/sh\n");
  const { code, output } = await run(folder, ["gone.ts", "notes.txt", "hello.ts", "hello.sh"]);
  assert.equal(code, 2);
  assert.match(output, /gone\.ts: there is no such file; create it with `berth dev --new gone\.ts`/);
  assert.match(output, /notes\.txt: a definition is a \.ts or a \.sh file/);
  assert.match(output, /hello\.sh: hello\.ts is already the server "hello"/);
});

test("berth dev ends while it deals with a change that brings another file", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  const slow = join(dev.folder, "package.json");
  execFileSync("mkfifo", [slow]);
  await writeFile(join(dev.folder, "name.ts"), 'export const name = "Ada";\n');
  await writeFile(join(dev.folder, "hello.ts"), `export * from "./name.ts";\n${GREET}`);
  // It reads the package.json, and waits there.
  const answer = await open(slow, "w");
  const stopped = dev.stop();
  // Were the signal taken later, this would only show less.
  await sleep(200);
  await rm(slow);
  await answer.write("{}");
  await answer.close();
  await stopped;
});

test("berth dev leaves nothing behind", async (t) => {
  const dev = await startDev(t, { "hello.ts": GREET }, ["hello.ts"]);
  assert.notDeepEqual(await readdir(dev.temporary), []);
  await dev.stop();
  assert.deepEqual(await readdir(dev.temporary), []);
});

async function run(cwd: string, args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const child = spawnDev(cwd, args);
  let output = "";
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const code = await new Promise<number | null>((ended) => child.once("close", ended));
  return { code, output };
}

async function toolNames(url: string): Promise<string[]> {
  const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
  return body.result.tools.map(({ name }: { name: string }) => name);
}
