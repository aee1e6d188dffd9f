import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ClientSession } from "../support/clients/client-session.ts";
import { everySession } from "../support/clients/every-session.ts";
import { toAnswer } from "../support/clients/real-client.ts";
import { ServeProcess } from "../support/serve-process.ts";

interface Case {
  readonly ids: string;
  readonly server: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  readonly text: RegExp;
}

/** One call of each reference definition, with what its answer must hold. */
const cases: readonly Case[] = [
  {
    ids: "T8.1, T8.2",
    server: "echo",
    tool: "echo",
    args: { message: "héllo = 'you' 👋" },
    text: /^héllo = 'you' 👋$/u,
  },
  {
    ids: "T8.3",
    server: "markdown",
    tool: "convert",
    args: { markdown: "# Hi\n\n**bold** <script>alert(1)</script>" },
    text: /<h1[^>]*>Hi<\/h1>\n<p><strong>bold<\/strong> *<\/p>/,
  },
  {
    ids: "T8.4",
    server: "jq",
    tool: "jq",
    args: { filter: ".[] | .a", input: [{ a: 1 }, { a: "b" }] },
    text: /^1\n"b"\n?$/,
  },
  {
    ids: "T8.5",
    server: "date",
    tool: "add",
    args: { date: "2026-01-31", amount: { months: 1 } },
    text: /"iso":"2026-02-28T00:00:00/,
  },
  {
    ids: "T11.2",
    server: "checksum",
    tool: "checksum",
    args: { text: "a b; $(id)", algorithm: "md5" },
    text: /^d55ffbc9eccd9d9913f63b18b065af58\n?$/,
  },
];

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

  for (const opener of everySession) {
    const inSession = async <T>(server: string, use: (session: ClientSession) => Promise<T>): Promise<T> => {
      const session = await opener.open(`${berth.url}/mcp/${server}`);
      try {
        return await use(session);
      } finally {
        await session.close();
      }
    };

    for (const { ids, server, tool, args, text } of cases) {
      it(`${opener.name} lists and calls ${server} (${ids})`, () =>
        inSession(server, async (session) => {
          assert.ok((await session.tools()).includes(tool));
          const answer = toAnswer(await session.call(tool, args));
          assert.match(answer.text, text);
          assert.equal(answer.isError, false);
        }));
    }
  }
});
