import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { everySession, sessionFor } from "../support/clients/every-session.ts";
import { toAnswer } from "../support/clients/real-client.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

interface Case {
  readonly ids: string;
  readonly call: readonly [server: string, tool: string, args: Record<string, unknown>];
  readonly text: RegExp;
}

const MARKDOWN = "# Hi\n\n**bold** <script>alert(1)</script>";
const HTML = /<h1[^>]*>Hi<\/h1>\n<p><strong>bold<\/strong> *<\/p>/;
const ISO = /"iso":"2026-02-28T00:00:00/;
const MD5 = /^d55ffbc9eccd9d9913f63b18b065af58\n?$/;

/** One call of each reference definition, with what its answer must hold. */
const CASES: readonly Case[] = [
  { ids: "T8.1, T8.2", call: ["echo", "echo", { message: "héllo = 'you' 👋" }], text: /^héllo = 'you' 👋$/u },
  { ids: "T8.3", call: ["markdown", "convert", { markdown: MARKDOWN }], text: HTML },
  { ids: "T8.4", call: ["jq", "jq", { filter: ".[] | .a", input: [{ a: 1 }, { a: "b" }] }], text: /^1\n"b"\n?$/ },
  { ids: "T8.5", call: ["date", "add", { date: "2026-01-31", amount: { months: 1 } }], text: ISO },
  { ids: "T11.2", call: ["checksum", "checksum", { text: "a b; $(id)", algorithm: "md5" }], text: MD5 },
];

describe("real clients over HTTP", () => {
  const data = temporaryFolder();
  let berth: ServeProcess;
  before(async () => void (berth = await ServeProcess.start(["--port", "0", "--data", data])));
  after(() => berth.end("SIGTERM"));

  for (const opener of everySession) {
    for (const { ids, call, text } of CASES) {
      const [server, tool, args] = call;
      it(`${opener.name} lists and calls ${server} (${ids})`, async (t) => {
        const session = await sessionFor(t, opener, `${berth.url}/mcp/${server}`);
        assert.ok((await session.tools()).includes(tool));
        const answer = toAnswer(await session.call(tool, args));
        assert.match(answer.text, text);
        assert.equal(answer.isError, false);
      });
    }
  }
});
