import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { pino } from "pino";
import { call, modern, MODERN_META } from "../../support/berth.ts";
import { asker, openClient, OUTCOMES, startOutcomes, type Mode } from "../../support/outcomes.ts";
import { berthFor, berthInSuite } from "../../support/suite.ts";
import { inOneOf, until } from "../../support/until.ts";

const TOOL = "computer.jp/tool";
const CONTEXT = "computer.jp/context";

const TYPED = `import type { Outcome } from "berth";
export function one(): Outcome { return { type: "success", content: "x" }; }
export async function maybe(): Promise<Outcome | null> { return null; }
export async function* stream(): AsyncGenerator<string, Outcome> { yield "a"; return { type: "success", content: "end" }; }
`;

/** One tool of each kind, by its server: function, script and upstream. */
const KINDS = [
  { kind: "function", server: "functions" },
  { kind: "script", server: undefined },
  { kind: "upstream", server: "asker" },
] as const;

describe("outcomes", () => {
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  const berth = berthInSuite({ ...OUTCOMES, log });

  const at = (server: string): string => `${berth.url}/mcp/${server}`;
  const ask = async (
    t: TestContext,
    mode: Mode,
    server: string,
    name: string,
    answer?: Parameters<typeof openClient>[3],
  ) => {
    const { client, asked } = await openClient(t, at(server), mode, answer);
    const result = await client.callTool({ name, arguments: {} });
    return { asked, text: (result.content[0] as { text: string }).text, isError: result.isError === true };
  };
  const accept = ({ message }: { message: string }) => ({
    action: "accept",
    content: { answer: message === "Which stage?" ? "prod" : true },
  });

  for (const { kind, server } of KINDS) {
    for (const mode of ["legacy", "auto"] as const) {
      const client = `the official client in the ${mode === "auto" ? "modern" : "legacy"} era`;
      const run = (t: TestContext, name: string, answer?: Parameters<typeof openClient>[3]) =>
        ask(t, mode, server ?? name, name, answer);

      it(`a ${kind} asks twice in a row and finishes, with ${client} (P4)`, async (t) => {
        const { asked, text } = await run(t, "deploy", accept);
        assert.deepEqual([asked, text], [["Which stage?", "Really?"], "deployed to prod: true"]);
      });

      it(`a ${kind} takes its defaults, or says what it needs, where ${client} cannot be asked (P4)`, async (t) => {
        assert.equal((await run(t, "preset")).text, "deployed to dev: true");
        const { text, isError } = await run(t, "deploy");
        assert.equal(isError, true);
        assert.match(text, /^The tool "deploy" needs an answer.*"Which stage\?" \("stage": one of "dev", "prod"\)$/);
      });

      it(`what ${client} declines or cancels ends the call of a ${kind} with a result of its own (P4)`, async (t) => {
        const declined = await run(t, "deploy", () => ({ action: "decline" }));
        assert.deepEqual([declined.isError, declined.asked.length], [true, 1]);
        assert.equal(declined.text, 'The tool "deploy" stopped: the user declined to answer "stage".');
        const cancelled = await run(t, "deploy", (params) =>
          params.message === "Which stage?" ? accept(params) : { action: "cancel" },
        );
        assert.equal(cancelled.text, 'The tool "deploy" stopped: the user cancelled the question "sure".');
      });

      if (server === undefined) continue;
      it(`questions of both kinds go through one call of a ${kind}, with ${client} (P4)`, async (t) => {
        const { asked, text } = await run(t, "mixed", (params) =>
          params.message === "Who?" ? { action: "accept", content: { name: "Ada" } } : accept(params),
        );
        assert.equal(text, "prod Ada true");
        assert.deepEqual([...new Set(asked)], ["Which stage?", "Who?", "Really?"]);
      });
    }
  }

  it("a task asks, too, and keeps the context of its call (P4)", async () => {
    const extensions = { "io.modelcontextprotocol/tasks": {} };
    const _meta = {
      ...MODERN_META,
      "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} }, extensions },
      [CONTEXT]: { root: "/work" },
    };
    const send = async (method: string, params: { taskId: string; inputResponses?: object }) =>
      (await modern(at("functions"), method, { _meta, ...params }, { "Mcp-Name": params.taskId })).body.result;
    const called = await modern(at("functions"), "tools/call", { name: "later", arguments: {}, _meta });
    const { taskId } = called.body.result;
    const settled = () =>
      until(async () => {
        const task = await send("tasks/get", { taskId });
        return task.status === "working" ? undefined : task;
      });
    const { inputRequests } = await settled();
    const [key] = Object.keys(inputRequests);
    const inputResponses = { [key!]: { action: "accept", content: { answer: true } } };
    await send("tasks/update", { taskId, inputResponses });
    assert.equal((await settled()).result.content[0].text, "/work: true");
  });

  it("a caller's answers, options and root reach functions, scripts and upstreams (P3)", async () => {
    const _meta = {
      ...MODERN_META,
      [TOOL]: { name: "x", answers: { sure: true }, options: { depth: 2 } },
      [CONTEXT]: { action: "Run", root: "/work" },
    };
    const send = async (server: string, name: string, args: object = {}) =>
      (await modern(at(server), "tools/call", { name, arguments: args, _meta })).body.result;
    const function_ = await send("functions", "told");
    assert.deepEqual(function_.structuredContent, {
      answers: { sure: true },
      options: { depth: 2 },
      root: "/work",
      action: "run",
    });
    const script = await send("print", "print", { text: "told" });
    assert.equal(script.content[0].text, '{"sure":true}|{"depth":2}|{"action":"run","root":"/work"}');
    const meta = await told(await send("asker", "told", { a: 1 }));
    assert.deepEqual(meta[TOOL], { name: "told", arguments: { a: 1 }, answers: { sure: true }, options: { depth: 2 } });
    assert.deepEqual(meta[CONTEXT], { action: "run", root: "/work" });
  });

  it("answers that the caller brings along are not asked for (P3)", async () => {
    const _meta = { ...MODERN_META, [TOOL]: { answers: { stage: "prod", sure: false } } };
    for (const server of ["functions", "deploy", "asker"]) {
      const { body } = await modern(at(server), "tools/call", { name: "deploy", arguments: {}, _meta });
      assert.equal(body.result.content[0].text, "deployed to prod: false", server);
    }
  });

  it("a transient error is tried again, told of in the log, and counted on the page (P5)", async (t) => {
    for (const tool of ["functions/flaky", "functions/thrown", "functions/clear", "asker/flaky"]) {
      const [server, name] = tool.split("/") as [string, string];
      const { client, logged } = await openClient(t, at(server), "legacy");
      const key = `retried-${name}`;
      const { content } = await client.callTool({ name, arguments: { key, times: 2 } });
      assert.deepEqual(content, [{ type: "text", text: "worked at call 3" }], `${server} ${name}`);
      const again = /failed temporarily and is called again in \d+ ms \(\d of 3\)/;
      assert.equal(logged.filter((line) => again.test(String(line))).length, 2, tool);
    }
    const page = await fetch(`${berth.url}/mcp/meta/asker?tab=calls`, { headers: { Accept: "text/html" } });
    assert.match(await page.text(), /ok, tried 3 times/);
  });

  it("tries end after the limit, and with an error that stays (P5)", async () => {
    for (const server of ["functions", "asker"]) {
      const always = await call(at(server), "flaky", { key: "always", times: 99 });
      assert.equal(always.isError, true);
      const text = "broken at call 4\n  inner\nThe same call may succeed when repeated.";
      assert.equal(always.content[0].text, text);
      const stays = await call(at(server), "broken", { key: "stays", times: 1 });
      assert.equal(stays.content[0].text, "broken at call 1\n  inner");
      assert.equal((await call(at(server), "broken", { key: "stays", times: 1 })).content[0].text, "worked at call 2");
    }
  });

  it("what destroys, and may not do so twice, is never tried again (P5)", async () => {
    for (const server of ["functions", "asker"]) {
      const wiped = await call(at(server), "wipe", { key: "wiped", times: 1 });
      assert.match(wiped.content[0].text, /^broken at call 1\n/, server);
    }
  });

  it("a result that says to be an error is one, whatever its envelope says (P2)", async () => {
    const block = { type: "text", text: '{"type":"success","content":"fine"}' };
    const upstream = await call(at("asker"), "say", { content: [block], isError: true });
    assert.deepEqual(upstream, { content: [{ type: "text", text: "fine" }], isError: true });
    const script = await call(at("print"), "print", { text: block.text, code: 3 });
    assert.deepEqual(script, upstream);
    const warnings = lines.filter((line) => line.includes("a result with isError holds a success envelope"));
    assert.equal(warnings.length, 2);
    const error = '{"type":"error","message":"no disk","trace":["a","b"]}';
    for (const code of [0, 3]) {
      const { content, isError } = await call(at("print"), "print", { text: error, code });
      assert.deepEqual([content[0].text, isError], ["no disk\n  a\n  b", true]);
    }
    const plain = await call(at("print"), "print", { text: "just text", code: 3 });
    assert.equal(plain.content[0].text, "exit code 3: just text");
  });
});

describe("outcomes with other settings", () => {
  it("options of mcps reach functions, scripts and upstreams, over those of the caller (P6)", async (t) => {
    const options = { depth: 9 };
    const berth = await startOutcomes(t, {
      mcps: {
        functions: { definition: "functions.ts", options: { told: options } },
        print: { definition: "print.sh", options: { print: options } },
        asker: { upstream: asker, options: { told: options } },
      },
    });
    const _meta = { ...MODERN_META, [TOOL]: { options: { depth: 1, wide: true } } };
    const send = async (server: string, name: string, args: object = {}) =>
      (await modern(`${berth.url}/mcp/${server}`, "tools/call", { name, arguments: args, _meta })).body.result;
    const both = { depth: 9, wide: true };
    assert.deepEqual((await send("functions", "told")).structuredContent.options, both);
    assert.deepEqual((await told(await send("asker", "told")))[TOOL].options, both);
    const { content } = await send("print", "print", { text: "told" });
    assert.deepEqual(JSON.parse(content[0].text.split("|")[1]), both);
    const plain = await call(`${berth.url}/mcp/functions`, "told");
    assert.deepEqual(plain.structuredContent.options, options);
  });

  it("retries is a limit, and no try begins after the call's deadline (P5)", async (t) => {
    const none = await startOutcomes(t, { env: { BERTH_RETRIES: "0" } });
    const once = await call(`${none.url}/mcp/functions`, "flaky", { key: "x", times: 1 });
    assert.match(once.content[0].text, /^broken at call 1\n/);

    const env = { BERTH_RETRIES: "1000", BERTH_RETRY_MS: "20", BERTH_CALL_MS: "3000", BERTH_UPSTREAM_CALL_MS: "3000" };
    const short = await startOutcomes(t, { env });
    for (const server of ["functions", "asker"]) {
      // A busy machine may not start a process in that time at the first try.
      await inOneOf(3, async () => {
        const beganAt = performance.now();
        const { content } = await call(`${short.url}/mcp/${server}`, "flaky", { key: "y", times: 99_999 });
        assert.match(content[0].text, /^broken at call [1-9]/);
        assert.ok(performance.now() - beganAt < 30_000);
      });
    }
  });

  it("a function whose result is an Outcome has no output schema (P1)", async (t) => {
    const berth = await berthFor(t, { texts: { "typed.ts": TYPED } });
    const { body } = await modern(`${berth.url}/mcp/typed`, "tools/list");
    for (const tool of body.result.tools) assert.equal(tool.outputSchema, undefined, tool.name);
    assert.equal((await call(`${berth.url}/mcp/typed`, "stream")).content[0].text, "end");
  });
});

/** The `_meta` that `told` of asker.mjs reports. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into it freely
async function told({ content }: any): Promise<any> {
  return JSON.parse(content[0].text).meta;
}
