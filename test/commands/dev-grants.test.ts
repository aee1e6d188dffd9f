import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { call } from "../support/berth.ts";
import { startDev } from "../support/dev-process.ts";
import { berthInProcess } from "../support/in-process.ts";
import { serve } from "../support/suite.ts";
import { until } from "../support/until.ts";

const VALUE = "correct horse battery staple";

const localServer = async (t: TestContext): Promise<number> =>
  Number(new URL(await serve(t, (_request, response) => response.end("from nearby"))).port);

const source = (port: number): string => `/**
 * Tells.
 * @secret API_TOKEN to tell
 * @network 127.0.0.1:${port} what is near
 */
import net from "node:net";
import type { ToolContext } from "berth";
export const secret = async (name: string, context: ToolContext): Promise<string> => String(await context.secret(name));
export const load = async (url: string): Promise<string> => (await fetch(url)).text();
export const connect = (port: number): Promise<string> => new Promise((done) => {
  net.connect(port, "localhost", () => done("connected")).on("error", (error) => done(error.message));
});
/** Makes its value known by mistake. */
export async function leak(context: ToolContext): Promise<string> {
  console.log("it is", await context.secret("API_TOKEN"));
  throw new Error("failed with " + (await context.secret("API_TOKEN")));
}
`;

test("berth dev grants what tags request, and tells what has no value, with the tag and the flag that gives it", async (t) => {
  const port = await localServer(t);
  const files = { "tell.ts": source(port), ".env": `API_TOKEN=${VALUE}\n` };
  const dev = await startDev(t, files, ["tell.ts"]);
  assert.match(
    dev.output(),
    /tell\.ts:3:4: warning: The code requests the secret "API_TOKEN" \(to tell\), and it has no value: start berth dev with --env-file \.env,/,
  );
  assert.match(
    dev.output(),
    /tell\.ts:4:4: warning: The code requests the host "127\.0\.0\.1:\d+" \(what is near\), which is a private host\. .*--allow-net 127\.0\.0\.1:\d+ /,
  );
  const say = async (tool: string, args: object): Promise<string> =>
    (await call(`${dev.url}/mcp/tell`, tool, { ...args })).content[0].text as string;
  assert.equal(await say("secret", { name: "API_TOKEN" }), "undefined", "a file beside is not read unasked");
  assert.match(
    await say("secret", { name: "OTHER" }),
    /not given the secret "OTHER": no tag requests it; write \/\*\* @secret OTHER \*\/ at the head of the file/,
  );
  const refused = new RegExp(
    `127\\.0\\.0\\.1:${port} may not be reached: nothing grants it: start berth dev with --allow-net 127\\.0\\.0\\.1:${port}, or, for a public address, write `,
  );
  assert.match(await say("load", { url: `http://127.0.0.1:${port}/` }), refused, "a tag opens no private address");
  assert.match(await say("connect", { port }), /^localhost.*: nothing grants it: .*--allow-net localhost:/);
});

test("berth dev gives values from --env-file and hosts from --allow-net, follows the file, and says no value", async (t) => {
  const port = await localServer(t);
  const files = { "tell.ts": source(port), "own.env": `\uFEFFAPI_TOKEN="${VALUE}"\nUNWANTED=never-asked-for\n` };
  const hosts = `--allow-net=localhost:${port},127.0.0.1:${port}`;
  const dev = await startDev(t, files, ["--env-file", "own.env", hosts, "tell.ts"]);
  assert.doesNotMatch(dev.output(), /warning/);
  const calling = (tool: string, args: object) => call(`${dev.url}/mcp/tell`, tool, { ...args });
  const say = async (tool: string, args: object): Promise<string> =>
    (await calling(tool, args)).content[0].text as string;
  assert.equal(await say("secret", { name: "API_TOKEN" }), VALUE);
  assert.match(await say("secret", { name: "UNWANTED" }), /not given the secret "UNWANTED"/);
  assert.equal(await say("load", { url: `http://127.0.0.1:${port}/` }), "from nearby");
  assert.equal(await say("load", { url: `http://localhost:${port}/` }), "from nearby");

  const leaked = await calling("leak", {});
  await dev.printed(/tell\.leak info: it is/);
  await dev.printed(/tell\.leak failed/);
  const pages = await Promise.all(
    ["/mcp/meta/tell", "/servers/tell", "/secrets", "/mcp"].map(async (path) =>
      (await fetch(`${dev.url}${path}`, { headers: { Accept: "text/html" } })).text(),
    ),
  );
  for (const text of [dev.output(), JSON.stringify(leaked), ...pages]) {
    assert.ok(!text.includes(VALUE) && !text.includes("never-asked-for"));
  }

  await writeFile(join(dev.folder, "own.env"), "API_TOKEN=another long value\n");
  await until(async () => (await say("secret", { name: "API_TOKEN" })) === "another long value");
  await dev.printed(/own\.env: API_TOKEN, UNWANTED changed/);
});

test("berth dev ends at once where the file of values or a host cannot be read", async () => {
  for (const [args, message] of [
    [
      ["--env-file", "nowhere.env", "examples/notes.ts"],
      /nowhere\.env: not found|--env-file nowhere\.env cannot be read: ENOENT/,
    ],
    [["examples/notes.ts", "--allow-net", "a/b"], /--allow-net: "a\/b" is not a host/],
    [
      ["examples/notes.ts", "--allow-net", "package.json"],
      /took the file package\.json for a host; write --allow-net behind/,
    ],
  ] as const) {
    const { code, stderr } = await berthInProcess(["dev", ...args]);
    // Node looks for a file of this option itself, and ends with 9.
    assert.ok(code === 2 || code === 9, stderr);
    assert.match(stderr, message);
  }
});
