import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { readingBounds } from "../../../src/lib/reading-bounds.ts";
import { MODERN_META, startTestBerth, type TestBerth } from "../../support/berth.ts";

/** The longest text that the serving thread has parsed or written as JSON: others wait for as long as that takes. */
let units = 0;
const { parse, stringify } = JSON;
before(() => {
  JSON.parse = (text: string, reviver) => {
    units = Math.max(units, text.length);
    return parse(text, reviver) as unknown;
  };
  JSON.stringify = ((...given: Parameters<typeof stringify>) => {
    const text = stringify(...given) as string | undefined;
    units = Math.max(units, text?.length ?? 0);
    return text;
  }) as typeof stringify;
});
after(() => void Object.assign(JSON, { parse, stringify }));
beforeEach(() => void (units = 0));

const escaped = String.raw`two\nlines \u2028 and \"quotes\"`;
const text = parse(`"${escaped}"`) as string;
const many = 20_000;
const values = stringify(Object.fromEntries(Array.from({ length: many }, (_, at) => [`k${at.toString(36)}`, 0])));
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

async function answerTo(url: string, body: string, headers: Record<string, string> = {}): Promise<string> {
  const accept = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const response = await fetch(url, { method: "POST", headers: { ...accept, ...headers }, body });
  return response.text();
}

const namedAsJson = (of: string): string => stringify(of).slice(1, -1);

/** The serving thread parsed and wrote none. */
function wasNotRead(): void {
  assert.ok(units <= readingBounds.inlineBodyBytes, `${units} units`);
}

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
  let folder: string;
  let berth: TestBerth;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "berth-counting-"));
    writeFileSync(join(folder, "counting.mjs"), program);
    const uri = `mcp+node://${join(folder, "counting.mjs")}`;
    berth = await startTestBerth({ mcps: { counting: { upstream: uri } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });
  });
  after(async () => {
    await berth.close();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const [way, path, body] of waysTo("counting", "count", long)) {
    it(`go to it as they are, ${way}`, async () => {
      const answer = await answerTo(berth.url + path, body);
      assert.ok(answer.includes(namedAsJson(said)), answer.slice(0, 500));
      wasNotRead();
    });
  }

  it("are repeated to it in the context of the call, where there is one", async () => {
    const meta = `,"_meta":{"computer.jp/context":{"root":"/there"}}`;
    const [[, path, body]] = waysTo("counting", "count", long, meta);
    const answer = await answerTo(berth.url + path, body);
    assert.ok(answer.includes("/there true"), answer.slice(0, 500));
    wasNotRead();
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
  let berth: TestBerth;
  let older: Server;
  let far: TestBerth;
  before(async () => {
    const set = { definition: "near.ts", tools: { count: { arguments: { text: "fixed" } } } };
    berth = await startTestBerth({ texts: { "near.ts": near, "lines.sh": lines }, mcps: { set } });
    // A server without `server/discover`.
    older = createServer((request, response) => {
      if (request.headers["mcp-method"] === "server/discover") return void response.writeHead(404).end();
      const { method, headers } = request;
      const onward = httpRequest(berth.url + request.url!, { method: method!, headers }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
      onward.on("error", () => response.destroy());
      request.pipe(onward);
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => older.once("listening", resolve));
    const upstreams = {
      far: { upstream: `mcp+${berth.url}/mcp/near` },
      older: { upstream: `mcp+http://127.0.0.1:${(older.address() as AddressInfo).port}/mcp/near` },
    };
    far = await startTestBerth({ mcps: upstreams });
  });
  after(async () => {
    await far.close();
    older.closeAllConnections();
    older.close();
    await berth.close();
  });

  for (const server of ["far", "older"]) {
    for (const [way, path, body] of waysTo(server, "count", long)) {
      it(`go to a remote server as they are, ${way} (${server})`, async () => {
        const answer = await answerTo(far.url + path, body);
        assert.ok(answer.includes(namedAsJson(said)), answer.slice(0, 500));
        wasNotRead();
      });
    }
  }

  const options = `{"options":{"region":"süd","other":"x"},${long.slice(1)}`;
  for (const [way, path, body] of waysTo("far", "there", options)) {
    it(`of which some go into headers are not read for that, ${way}`, async () => {
      const answer = await answerTo(far.url + path, body);
      assert.ok(answer.includes(namedAsJson(`süd ${said}`)), answer.slice(0, 500));
      wasNotRead();
    });
  }

  it("are repeated to a remote server in the context of the call", async () => {
    const meta = `,"_meta":{"computer.jp/context":{"root":"/there"}}`;
    const [[, path, body]] = waysTo("far", "count", `{"text":"${"x".repeat(100_000)}","values":{}}`, meta);
    const answer = await answerTo(far.url + path, body);
    assert.match(answer, /"text":"0 x{100000}"/);
  });

  it("must say what their headers say", async () => {
    const params = `{"name":"there","arguments":${options},"_meta":${stringify(MODERN_META)}}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
    const headers = { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "there" };
    const url = `${berth.url}/mcp/near`;
    const encoded = `=?base64?${Buffer.from("süd").toString("base64")}?=`;
    const right = await answerTo(url, body, { ...headers, "Mcp-Param-Region": encoded });
    assert.ok(right.includes(namedAsJson(`süd ${said}`)), right.slice(0, 500));
    const wrong = await answerTo(url, body, { ...headers, "Mcp-Param-Region": "north" });
    assert.match(wrong, /mcp-param-region is \\"north\\", the body says \\"süd\\"/);
    assert.match(await answerTo(url, body, headers), /the header mcp-param-region is missing/);
    wasNotRead();
  });

  for (const [way, path, body] of waysTo("set", "count", long.replace(`"text": "${escaped}",`, ""))) {
    it(`are completed with fixed ones, ${way}`, async () => {
      const answer = await answerTo(berth.url + path, body);
      assert.ok(answer.includes(`${many} fixed`), answer.slice(0, 500));
      wasNotRead();
    });
  }

  const zeros = (count: number): string => stringify(Array.from({ length: count }, () => 0));
  const shown = `"${escaped}"`;
  for (const [way, path, body] of waysTo("lines", "lines", `{"text":${shown},"values":${zeros(50_000)}}`)) {
    it(`of a script become its texts elsewhere, ${way}`, async () => {
      const answer = await answerTo(berth.url + path, body);
      assert.ok(answer.includes(namedAsJson(`50000 ${text} x 3`)), answer.slice(0, 500));
      wasNotRead();
    });
  }

  it("of a script that are longer than a program can be given are refused", async () => {
    const [, , [, path, body]] = waysTo("lines", "lines", `{"text":"","values":${zeros(70_000)}}`);
    assert.match(
      await answerTo(berth.url + path, body),
      /its arguments are too long: a process takes 122880 bytes each/,
    );
    wasNotRead();
  });
});
