import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { argumentsOf } from "../../../../src/features/native/commands/call-arguments.ts";
import { call } from "../../../support/berth.ts";
import { cli, exits, type Ran } from "../../../support/commands.ts";
import { berthInProcess } from "../../../support/in-process.ts";
import { rows } from "../../../support/rows.ts";
import { berthInSuite } from "../../../support/suite.ts";
import { until } from "../../../support/until.ts";

const TYPED = `
/** Says what it was given. */
export function given(
  text: string,
  count: number,
  loud: boolean,
  tags: string[],
  sizes: number[],
  either: string | number,
  more: { deep: boolean },
): string {
  return JSON.stringify([text, count, loud, tags, sizes, either, more]);
}

/** Asks. */
export async function ask(context: import("berth").ToolContext): Promise<string> {
  const { content } = await context.elicit({ message: "Who?", schema: { type: "object", properties: { name: { type: "string" } } } });
  return "hello " + content?.["name"];
}
`;

const SHOWN = `
export function text(name: string, times = 1): string { return "Hello, " + name.repeat(times) + "!"; }
export function value(size: number): { size: number; of: string[] } { return { size, of: ["a"] }; }
export function picture(): import("berth").ContentBlock { return { type: "image", mimeType: "image/png", data: "A".repeat(40) }; }
export function nothing(): void {}
export function logs(): string { console.warn("careful"); return "done"; }
export function fail(): string { throw new Error("no"); }
`;

describe("berth call", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/streaming.ts", "test/fixtures/servers/everyday.ts"],
    texts: { "typed.ts": TYPED, "shown.ts": SHOWN },
  });
  const say = (args: readonly string[], input = ""): Promise<Ran> =>
    berthInProcess(["call", "--url", berth.url, ...args], { input });

  /** As programs call it. */
  const run = async (args: readonly string[], input = "") => {
    const { code, records: lines, stderr } = await say(["--json", ...args], input);
    return { code, lines, stderr };
  };

  const stopped = async (): Promise<number> =>
    (await call(`${berth.url}/mcp/streaming`, "state")).structuredContent.stopped as number;

  it("writes events and the result as lines of JSON, and exits with 0 (S9)", async () => {
    const { lines } = await exits(0, run(["streaming.drip", "--count", "2", "--ms=0", "--bytes", "1"]));
    const shown = lines.map(({ type, data }) => data ?? type);
    assert.deepEqual(shown, ["start", "1 ", "2 ", "complete", "result"]);
    assert.equal(lines.at(-1).content[0].text, "dripped 2");
  });

  it("takes arguments from standard input, and the address of one server (S9)", async () => {
    const { lines } = await run(["everyday.add", "--url", `${berth.url}/mcp/everyday`], '{"a": 5}');
    assert.deepEqual(lines.at(-1).structuredContent, { sum: 15 });
    assert.equal((await run(["everyday.nothing"])).code, 0);
  });

  it("flags become what the tool's schema says (S9)", async () => {
    const flags = '--text 1 --count 2 --loud --tags 3 --sizes 4 --sizes 5 --either 6 --more {"deep":true}'.split(" ");
    const { lines, stderr } = await run(["typed.given", ...flags]);
    assert.equal(stderr, "");
    assert.equal(lines.at(-1).content[0].text, '["1",2,true,["3"],[4,5],"6",{"deep":true}]');
    assert.deepEqual(argumentsOf(["--a", "1", "--b", "x", "--c=--d"], undefined), { a: 1, b: "x", c: "--d" });
    assert.throws(() => argumentsOf(["stray"], undefined), /"stray" has no name/);
    const all = ["text=a=b", "count=2", '{"either":1,"text":"x"}', "tags=[1]", "url=", "--loud"];
    assert.deepEqual(argumentsOf(all, undefined), { either: 1, text: "a=b", loud: true, count: 2, tags: [1], url: "" });
    assert.throws(() => argumentsOf(["{1}"], undefined), /this argument is not JSON/);
  });

  it("people read the text or the value of a result, and what a terminal cannot show by its name (S9)", async () => {
    const { code, stdout, stderr } = await say(["shown.text", "name=Ada"]);
    assert.deepEqual([code, stdout, stderr], [0, "Hello, Ada!\n", ""]);
    assert.equal((await say(["shown.value", '{"size":2}'])).stdout, '{\n  "size": 2,\n  "of": [\n    "a"\n  ]\n}\n');
    assert.equal((await say(["shown.picture"])).stdout, "[image, image/png, 30 bytes; --json has it]\n");
    assert.equal((await say(["shown.nothing"])).stdout, "");
    const streamed = await say(["streaming.drip", "count=2", "ms=0", "bytes=1"]);
    assert.equal(streamed.stdout, "1 \n2 \ndripped 2\n");
    const logged = await say(["shown.logs"]);
    assert.deepEqual([logged.stdout, logged.stderr], ["done\n", "warning: careful\n"]);
  });

  it("what is wrong is told on stderr, with what could be meant (S9)", async () => {
    for (const [args, code, reason] of [
      [["shown.fail"], 1, /^berth: no\n/],
      [["shwn.text", "name=Ada"], 2, /^berth: No such method: shwn\.text; did you mean shown\.text\?\n$/],
      [["shown.txt"], 2, /has no tool "txt"; did you mean shown\.text\?\n$/],
      [["shown"], 2, /"shown" names no tool; write server\.tool: shown\.text, shown\.value, .*shown\.fail\n$/],
      [["logs"], 2, /"logs" names no tool; write server\.tool; did you mean shown\.logs\?\n$/],
      [
        ["shown.text", "nmae=Ada"],
        2,
        /shown\.text has no parameter "nmae"; did you mean name\?\nusage: shown\.text name=<string> \[times=<number>\]\n$/,
      ],
      [["shown.text"], 1, /Invalid arguments for the tool "text": .*"name"\nusage: shown\.text name=<string>/],
    ] as const) {
      const said = await say(args);
      assert.deepEqual([said.code, said.stdout], [code, ""], said.stderr);
      assert.match(said.stderr, reason);
    }
  });

  it("exits with 1 when the tool fails or asks, and goes on with answers (S9)", async () => {
    const failed = await exits(1, run(["everyday.fail"]));
    assert.deepEqual(rows(failed.lines, "type"), ["start", "error", "result"]);
    const asked = await exits(1, run(["typed.ask"]));
    const [key] = Object.keys(asked.lines.at(-1).inputRequests as object);
    assert.match(asked.stderr, new RegExp(`asks ${key}.*--answers`));
    const [, answers] = /^ {2}Who\?\n {4}name: string\n {2}\n {2}--answers '(.*)'$/m.exec(asked.stderr)!;
    const answered = await run(["typed.ask", "--answers", answers!.replace('"text"', '"Ann"')]);
    assert.equal(answered.lines.at(-1).content[0].text, "hello Ann");
  });

  it("exits with 2 and the reason when the tool cannot be called (S9)", async () => {
    for (const [args, reason, input] of [
      [["everyday.echo", "stray"], /"stray" has no name/],
      [["everyday.echo", "--url", "http://127.0.0.1:9"], /nothing answers at http:\/\/127\.0\.0\.1:9\/mcp; start one/],
      [["everyday.echo"], /standard input is not JSON/, "{"],
      [["everyday.echo"], /standard input must be a JSON object/, "[]"],
      [["everyday.echo", "--answers", "1"], /--answers must be a JSON object/],
      [["everyday.echo", "--url", "nowhere"], /"nowhere" is not an address/],
    ] as const) {
      const { lines, stderr } = await exits(2, run(args, input));
      assert.deepEqual(lines, []);
      assert.match(stderr, reason);
      assert.doesNotMatch(stderr, /\n\s+at /, "no stack");
    }
  });

  it("Ctrl-C and a closed pipe end the call on the other side, too (S5, S9)", async () => {
    for (const how of ["SIGINT", "pipe"]) {
      const before = await stopped();
      const args = ["call", "--url", berth.url, "--json", "streaming.drip", "--count", "100000", "--ms", "5"];
      const child = spawn(process.execPath, [cli, ...args]);
      child.stdin.end();
      const lines = createInterface({ input: child.stdout });
      for await (const line of lines) if (line.includes('"data"')) break;
      if (how === "SIGINT") child.kill("SIGINT");
      else child.stdout.destroy();
      const [code] = (await once(child, "exit")) as [number];
      assert.equal(code, how === "SIGINT" ? 130 : 0, how);
      await until(async () => (await stopped()) > before);
    }
  });
});
