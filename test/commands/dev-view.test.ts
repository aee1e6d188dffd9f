import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { DevView } from "../../src/commands/dev-view.ts";
import { stylesFor } from "../../src/commands/styles.ts";
import { apiOf } from "../support/api.ts";
import { call, modern, MODERN_META, post, request } from "../support/berth.ts";
import { lowerInSuite } from "../support/lower-in-suite.ts";
import { berthInSuite, serverInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const SECRET = "a-value-that-nobody-sees";
const LIVE = `import { connect } from "node:net";
import type { ToolContext } from "berth";

/** Greets. */
export function greet(name: string, times: number): string {
  console.log("greeting", name);
  return "Hello, " + name.repeat(times) + "!";
}
export function fail(why: string): string {
  throw new Error(why);
}
export async function leak(given: string, context: ToolContext): Promise<string> {
  const value = (await context.secret("API_TOKEN")) ?? "";
  console.warn(value);
  if (given === "throw") throw new Error(value);
  return given + value;
}
export async function get(url: string): Promise<number> {
  return (await fetch(url)).status;
}
export async function open(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  await new Promise((done, failed) => socket.once("connect", done).once("error", failed));
  socket.destroy();
  return "opened";
}
export async function slow(ms: number): Promise<string> {
  await new Promise((done) => setTimeout(done, ms));
  return "done";
}
export async function ask(context: ToolContext): Promise<string> {
  const { content } = await context.elicit({ message: "Who?", schema: { type: "object", properties: { name: { type: "string" } } } });
  return "hello " + content?.["name"];
}
export function picture(): Uint8Array {
  return new Uint8Array(30);
}
/** @resource note://{id} */
export function note(id: string): string {
  if (id === "none") throw new Error("no such note");
  return "note " + id;
}
/** @prompt */
export function review(topic: string): string {
  return "Review " + topic;
}
`;

const CAN_BE_ASKED = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } };

describe("what berth dev shows of what happens", () => {
  lowerInSuite({ devShownCharacters: 60 });
  const web = serverInSuite(({ url }, response) => response.writeHead(url?.startsWith("/gone") ? 404 : 200).end());
  let port: number;
  const berth = berthInSuite(() => {
    port = Number(new URL(web.url).port);
    const live = { definition: "live.ts", secrets: ["API_TOKEN"], network: [`127.0.0.1:${port}`] };
    return { texts: { "live.ts": LIVE }, mcps: { live } };
  });
  const lines: string[] = [];
  const quiet: string[] = [];
  const hasty: string[] = [];

  before(async () => {
    assert.equal((await apiOf(berth).send("PUT", "/secrets/API_TOKEN", SECRET)).status, 204);
    for (const [into, isQuiet, slowMs] of [
      [lines, false, 600_000],
      [hasty, false, 20],
      [quiet, true, 600_000],
    ] as const) {
      const view = new DevView({
        // Without the time of day.
        write: (line) => into.push(line.slice(9)),
        style: (_, text) => text,
        isQuiet,
        ownFiles: (_, text) => text.replaceAll("definition:", ""),
        slowMs,
      });
      berth.onLiveEvent(view.onLiveEvent);
    }
  });

  /** The lines that the work leads to, with each time as `T`. */
  async function shown(work: () => Promise<unknown>, from = lines): Promise<string[]> {
    const before = from.length;
    await work();
    return from.slice(before).map((line) => line.replaceAll(/ \d+(?:\.\d)? m?s/g, " T"));
  }
  const tool = (name: string, args: Record<string, unknown> = {}) => call(`${berth.url}/mcp/live`, name, args);

  it("a call is one line with its arguments, its result and its time, after what it prints", async () => {
    assert.deepEqual(await shown(() => tool("greet", { name: "Ada", times: 2 })), [
      'live.greet name="Ada" times=2 …',
      "live.greet info: greeting Ada",
      'live.greet name="Ada" times=2 → "Hello, AdaAda!" T',
    ]);
    assert.deepEqual(await shown(() => tool("picture")), ["live.picture → [application/octet-stream, 30 bytes] T"]);
  });

  it("an error comes with the line of the source, and refused arguments with the reason", async () => {
    const [failed] = await shown(() => tool("fail", { why: "no\u001b[31m\u202e reason" }));
    assert.match(
      failed!,
      /^live\.fail why="no\\u001b\[31m� reason" failed T: no�\[31m� reason\n +at fail \(live\.ts:10:9\)\n/,
    );
    assert.match(failed!, /> 10 \| {3}throw new Error\(why\);/);
    const [refused] = await shown(() => tool("greet", { nmae: "Ada" }));
    assert.match(refused!, /^live\.greet nmae="Ada" was refused T: Invalid arguments for the tool "greet": .*"nmae"/);
  });

  it("devShownCharacters: long arguments and results are cut, however long they are", async () => {
    const [, , ended] = await shown(() => tool("greet", { name: "x".repeat(300_000), times: 1 }));
    assert.ok(ended!.length < 250, ended);
    const [, , cut] = await shown(() => tool("greet", { name: "y".repeat(100), times: 1 }));
    assert.match(cut!, /^live\.greet name="y{54}… → "Hello, y{52}… T$/);
  });

  it("no value of a secret is shown: not as argument, line, error or result", async () => {
    const given = await shown(() => tool("leak", { given: `${SECRET} ` }));
    const thrown = await shown(() => tool("leak", { given: "throw" }));
    assert.equal(given.length + thrown.length, 6);
    assert.match(given[2]!, /^live\.leak given="\[hidden\] " → "\[hidden\] \[hidden\]" T$/);
    assert.doesNotMatch([...given, ...thrown].join("\n"), new RegExp(SECRET));
  });

  it("fetches are told with their status and without their query, and refused ones with the reason", async () => {
    const [begun, fetched] = await shown(() => tool("get", { url: `http://127.0.0.1:${port}/gone?key=hush` }));
    assert.match(begun!, /^live\.get url=".*" …$/);
    assert.equal(fetched, `live.get GET 127.0.0.1:${port}/gone → 404 T`);
    const refused = await shown(() => tool("get", { url: "https://example.com/" }));
    assert.match(
      refused[1]!,
      /^live\.get GET example\.com\/ failed: .*"network" of the entry "live" .*: add "example\.com:443"$/,
    );
  });

  it("connections are told, and refused ones with the reason", async () => {
    const opened = await shown(() => tool("open", { port }));
    assert.ok(opened.includes(`live connects to 127.0.0.1:${port} T`), opened.join("\n"));
    const before = lines.length;
    await tool("open", { port: 9 });
    const refused =
      /^live connects to 127\.0\.0\.1:9 failed: 127\.0\.0\.1:9 may not be reached: .*: add "127\.0\.0\.1:9"$/;
    await until(async () => lines.slice(before).some((line) => refused.test(line)));
  });

  it("a call that takes a while is told before it ends", async () => {
    const told = await shown(() => tool("slow", { ms: 100 }), hasty);
    assert.deepEqual(told, ["live.slow ms=100 …", 'live.slow ms=100 → "done" T']);
  });

  it("questions and their answers are told", async () => {
    const url = `${berth.url}/mcp/live`;
    let key = "";
    assert.deepEqual(
      await shown(async () => {
        const { body } = await modern(url, "tools/call", { _meta: CAN_BE_ASKED, name: "ask" });
        [key] = Object.keys(body.result.inputRequests) as [string];
      }),
      ['live.ask asks T: "Who?" (name)'],
    );
    const answers = { [key]: { action: "accept", content: { name: "Ann" } } };
    const params = { _meta: { inputResponses: answers } };
    assert.deepEqual(await shown(() => post(url, request("live.ask", params))), [
      'live.ask was answered: name="Ann"',
      'live.ask → "hello Ann" T',
    ]);
  });

  it("resources that are read and prompts that are got are told, and how they failed", async () => {
    const url = `${berth.url}/mcp/live`;
    assert.deepEqual(await shown(() => modern(url, "resources/read", { uri: "note://7" })), [
      'live resource note://7 → "note 7" T',
    ]);
    const [failed] = await shown(() => modern(url, "resources/read", { uri: "note://none" }));
    assert.match(failed!, /^live resource note:\/\/none failed T: no such note\n +at note \(live\.ts:\d+:\d+\)/);
    const [got] = await shown(() => modern(url, "prompts/get", { name: "review", arguments: { topic: "tea" } }));
    assert.match(got!, /^live prompt review topic="tea" → .*Review tea/);
  });

  it("--quiet shows what goes wrong, and nothing else", async () => {
    assert.deepEqual(await shown(() => tool("greet", { name: "Ada", times: 1 }), quiet), []);
    assert.equal((await shown(() => tool("fail", { why: "no" }), quiet)).length, 1);
    assert.match((await shown(() => tool("leak", { given: "x" }), quiet)).join(), /^live\.leak warning: \[hidden\]$/);
  });
});

it("colours are for terminals, unless NO_COLOR is set", () => {
  assert.equal(stylesFor({ isTTY: true }, {})("red", "x"), "\u001b[31mx\u001b[39m");
  assert.equal(stylesFor({ isTTY: true }, { NO_COLOR: "1" })("red", "x"), "x");
  assert.equal(stylesFor({}, {})("red", "x"), "x");
});
