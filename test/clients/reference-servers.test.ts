import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { olderSdk } from "../support/clients/older-sdk.ts";
import { toAnswer, type RealClient } from "../support/clients/real-client.ts";
import { ServeProcess } from "../support/serve-process.ts";

interface Case {
  readonly id: string;
  readonly server: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  readonly text: RegExp;
}

/** One call of each reference definition, with what its answer must hold. */
const cases: readonly Case[] = [
  { id: "T8.2", server: "echo", tool: "echo", args: { message: "héllo = 'you' 👋" }, text: /^héllo = 'you' 👋$/u },
  {
    id: "T8.3",
    server: "markdown",
    tool: "convert",
    args: { markdown: "# Hi\n\n**bold** <script>alert(1)</script>" },
    text: /<h1[^>]*>Hi<\/h1>\n<p><strong>bold<\/strong> *<\/p>/,
  },
  {
    id: "T8.4",
    server: "jq",
    tool: "jq",
    args: { filter: ".[] | .a", input: [{ a: 1 }, { a: "b" }] },
    text: /^1\n"b"\n?$/,
  },
  {
    id: "T8.5",
    server: "date",
    tool: "add",
    args: { date: "2026-01-31", amount: { months: 1 } },
    text: /"iso":"2026-02-28T00:00:00/,
  },
  {
    id: "T11.2",
    server: "checksum",
    tool: "checksum",
    args: { text: "a b; $(id)", algorithm: "md5" },
    text: /^d55ffbc9eccd9d9913f63b18b065af58\n?$/,
  },
];

const clients = [officialClient("legacy"), officialClient("modern"), officialClient("auto"), olderSdk()];

describe("real clients over HTTP", () => {
  let berth: ServeProcess;
  let data: string;
  before(async () => {
    data = await mkdtemp(join(tmpdir(), "berth-clients-"));
    berth = await ServeProcess.start(["--port", "0", "--data", data]);
  });
  after(async () => {
    await berth.end("SIGTERM");
    await rm(data, { recursive: true, force: true });
  });

  it("the official client left to choose its era takes the modern one (T3.2)", async () => {
    const client = new Client({ name: "berth-test", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${berth.url}/mcp/echo`)));
    try {
      assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
      assert.equal(client.getServerVersion()?.name, "echo");
    } finally {
      await client.close();
    }
  });

  for (const client of clients) {
    it(`${client.name} lists the tools of every reference server (T8.1)`, async () => {
      for (const { server, tool } of cases) {
        const tools = await client.list(`${berth.url}/mcp/${server}`);
        assert.ok(tools.includes(tool), `${server}: ${tools.join(", ")}`);
      }
    });

    for (const { id, server, tool, args, text } of cases) {
      it(`${id} ${client.name} calls ${server}`, async () => {
        const answer = await client.call(`${berth.url}/mcp/${server}`, tool, args);
        assert.match(answer.text, text);
        assert.equal(answer.isError, false);
      });
    }

    it(`${client.name} is told what a tool failed of (T5.5)`, async () => {
      const answer = await client.call(`${berth.url}/mcp/jq`, "jq", { filter: ".a |", input: {} });
      assert.match(answer.text, /syntax error/);
      assert.equal(answer.isError, true);
    });
  }
});

/** `@modelcontextprotocol/client` 2.4: a whole session for each request, in the era that it is told to negotiate. */
function officialClient(era: "legacy" | "modern" | "auto"): RealClient {
  const mode = era === "modern" ? { pin: "2026-07-28" } : era;
  const session = async <T>(url: string, use: (client: Client) => Promise<T>): Promise<T> => {
    const client = new Client({ name: "berth-test", version: "1.0.0" }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  };
  return {
    name: era === "auto" ? "the official client left to choose its era" : `the official client in the ${era} era`,
    list: (url) => session(url, async (client) => (await client.listTools()).tools.map(({ name }) => name)),
    call: (url, name, args) =>
      session(url, async (client) => toAnswer(await client.callTool({ name, arguments: args }))),
  };
}
