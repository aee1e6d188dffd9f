import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { MODERN_META, post } from "../../support/berth.ts";
import { longJsonIn } from "../../support/long-json.ts";
import { berthInSuite, serverInSuite, temporaryFolder } from "../../support/suite.ts";

const escaped = String.raw`two\nlines \u2028 and \"quotes\"`;
const text = JSON.parse(`"${escaped}"`) as string;
const many = 20_000;
const values = JSON.stringify(Object.fromEntries(Array.from({ length: many }, (_, at) => [`k${at.toString(36)}`, 0])));
/** In a person's own formatting. */
const long = `{"text": "${escaped}",\n"values":${values}}`;
const said = `${many} ${text}`;

type Way = readonly [way: string, path: string, body: string];

/** Each way to call a tool. */
function waysTo(server: string, tool: string, args: string, meta = ""): [Way, Way, Way] {
  const call = (params: string, method = "tools/call"): string =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
  return [
    ["by tools/call", `/mcp/${server}`, call(`{"name":"${tool}","arguments":${args}${meta}}`)],
    ["natively", `/mcp/${server}`, call(args, `${server}.${tool}`)],
    ["by plain HTTP", `/servers/${server}/${tool}`, args],
  ];
}

/** Expects an answer with `said`, for which the serving thread parses and writes no long text. */
async function answerTo(url: string, body: string, said: string, headers: Record<string, string> = {}): Promise<void> {
  const accept = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  let answer = "";
  const seen = await longJsonIn(async () => {
    const response = await fetch(url, { method: "POST", headers: { ...accept, ...headers }, body });
    answer = await response.text();
  });
  assert.deepEqual(seen, []);
  assert.ok(answer.includes(said), answer.slice(0, 500));
}

const namedAsJson = (of: string): string => JSON.stringify(of).slice(1, -1);

describe("long arguments of a tool of a hosted program", () => {
  const program = `
    import { createInterface } from "node:readline";
    const say = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
    const tools = [{ name: "count", inputSchema: { type: "object" } }];
    createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method === "initialize") {
        const serverInfo = { name: "counting", version: "1" };
        say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
      } else if (method === "tools/list") say(id, { tools });
      else if (method === "tools/call") {
        const { arguments: args, _meta: meta } = params;
        const repeated = meta?.["computer.jp/tool"]?.arguments;
        const text = Object.keys(args.values).length + " " + args.text;
        const root = meta?.["computer.jp/context"]?.root;
        const isSame = JSON.stringify(repeated) === JSON.stringify(args);
        say(id, { content: [{ type: "text", text: root ? root + " " + isSame : text }] });
      } else if (id !== undefined) say(id, {});
    });`;
  const file = join(temporaryFolder(), "counting.mjs");
  writeFileSync(file, program);
  const upstream = `mcp+node://${file}`;
  const berth = berthInSuite({ mcps: { counting: { upstream } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });

  for (const [way, path, body] of waysTo("counting", "count", long)) {
    it(`go to it as they are, ${way}`, async () => {
      await answerTo(berth.url + path, body, namedAsJson(said));
    });
  }

  it("are repeated to it in the context of the call, where there is one", async () => {
    const meta = `,"_meta":{"computer.jp/context":{"root":"/there"}}`;
    const [[, path, body]] = waysTo("counting", "count", long, meta);
    await answerTo(berth.url + path, body, "/there true");
  });
});

describe("long arguments", () => {
  const near = `
    /** Counts. */
    export function count(text: string, values: Record<string, number>): string {
      return Object.keys(values).length + " " + text;
    }

    /** Counts there.
     * @param options.region - Where. */
    export function there(
      options: { /** @header Region */ region: string; other?: string },
      text: string,
      values: Record<string, number>,
    ): string {
      return options.region + " " + count(text, values);
    }`;
  const lines = `#!/bin/sh
# Counts lines.
#
# @param {number[]} values - Numbers.
# @param {string} text - A text.
# @param {string} [more=x] - More.
printf '%s %s %s %s' "$(printf '%s\\n' "$values" | wc -l)" "$2" "$more" "$#"
`;
  const set = { definition: "near.ts", tools: { count: { arguments: { text: "fixed" } } } };
  const berth = berthInSuite({ texts: { "near.ts": near, "lines.sh": lines }, mcps: { set } });
  // A server without `server/discover`.
  const older = serverInSuite((request, response) => {
    if (request.headers["mcp-method"] === "server/discover") return void response.writeHead(404).end();
    const { method, headers } = request;
    const onward = httpRequest(berth.url + request.url!, { method: method!, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  const far = berthInSuite(() => ({
    mcps: {
      far: { upstream: `mcp+${berth.url}/mcp/near` },
      older: { upstream: `mcp+${older.url}/mcp/near` },
    },
  }));

  const options = `{"options":{"region":"süd","other":"x"},${long.slice(1)}`;
  const zeros = (count: number): string => JSON.stringify(Array.from({ length: count }, () => 0));
  const numbers = `{"text":"${escaped}","values":${zeros(50_000)}}`;
  const textless = long.replace(`"text": "${escaped}",`, "");
  const cases = [
    ["go to a remote server as they are", far, "far", "count", long, said],
    ["go to a remote server without `server/discover` as they are", far, "older", "count", long, said],
    ["of which some go into headers are not read for that", far, "far", "there", options, `süd ${said}`],
    ["are completed with fixed ones", berth, "set", "count", textless, `${many} fixed`],
    ["of a script become its texts in another process", berth, "lines", "lines", numbers, `50000 ${text} x 3`],
  ] as const;
  for (const [what, at, server, tool, args, expected] of cases) {
    for (const [way, path, body] of waysTo(server, tool, args)) {
      it(`${what}, ${way}`, () => answerTo(at.url + path, body, namedAsJson(expected)));
    }
  }

  it("are repeated to a remote server in the context of the call", async () => {
    const meta = `,"_meta":{"computer.jp/context":{"root":"/there"}}`;
    const [[, path, body]] = waysTo("far", "count", `{"text":"${"x".repeat(100_000)}","values":{}}`, meta);
    assert.match((await post(far.url + path, body)).text, /"text":"0 x{100000}"/);
  });

  it("must say what their headers say", async () => {
    const params = `{"name":"there","arguments":${options},"_meta":${JSON.stringify(MODERN_META)}}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
    const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "there" };
    const url = `${berth.url}/mcp/near`;
    const encoded = `=?base64?${Buffer.from("süd").toString("base64")}?=`;
    await answerTo(url, body, namedAsJson(`süd ${said}`), { ...headers, "Mcp-Param-Region": encoded });
    const wrong = String.raw`mcp-param-region is \"north\", the body says \"süd\"`;
    await answerTo(url, body, wrong, { ...headers, "Mcp-Param-Region": "north" });
    await answerTo(url, body, "the header mcp-param-region is missing", headers);
  });

  it("of a script that are longer than a program can be given are refused", async () => {
    const [, , [, path, body]] = waysTo("lines", "lines", `{"text":"","values":${zeros(70_000)}}`);
    await answerTo(berth.url + path, body, "its arguments are too long: a process takes 122880 bytes each");
  });
});
