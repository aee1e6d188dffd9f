import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { jsonOf } from "../../../../src/host/offers/long-result.ts";
import { rawBlock } from "../../../../src/lib/cid.ts";
import { longJsonIn } from "../../../support/long-json.ts";
import { hostedInSuite } from "../../../support/suite.ts";

const TEXT = "long ä ".repeat(50_000);
const STORED = JSON.stringify({ text: TEXT });
const DEFINITION = `
export function long(): string { return ${JSON.stringify("long ä ")}.repeat(50_000); }
export function broken() { return { content: [{ type: "text", text: long() }], isError: true }; }
export function lead(location: string): Response { return new Response(null, { status: 303, headers: { location } }); }
/** @resource lead://{+location} */
export function led(location: string): Response { return new Response(null, { status: 303, headers: { location } }); }
/** @prompt */
export function asked(location: string): Response { return new Response(null, { status: 303, headers: { location } }); }
`;

describe("what a redirect or a URI leads to that is long is made into what was asked for where long values are", () => {
  const hosted = hostedInSuite({ demo: DEFINITION });
  const cid = rawBlock(STORED);
  before(() => hosted.store.change("default", { by: "test", put: [cid] }));

  const text = { type: "text", text: TEXT };
  const read = async (uri: string): Promise<object> => (await (await hosted.catalog("demo")).resource(uri))!.read({});
  const contents = (uri: string, mimeType: string, given = TEXT): object => ({
    contents: [{ uri, mimeType, text: given }],
  });
  const ways: Readonly<Record<string, [() => Promise<object>, object]>> = {
    "a tool to a resource": [
      async () => (await hosted.catalog("demo")).tool("lead")!.call({ location: `cid://${cid.cid}` }, {}),
      { content: [{ type: "text", text: STORED }] },
    ],
    "a resource to a tool": [
      () => read("lead://server://demo/long"),
      contents("lead://server://demo/long", "text/plain"),
    ],
    "a resource to a resource": [
      () => read(`lead://cid://${cid.cid}`),
      contents(`lead://cid://${cid.cid}`, "application/json", STORED),
    ],
    "a prompt to a tool": [
      async () => (await hosted.catalog("demo")).prompt("asked")!.get({ location: "server://demo/long" }, {}),
      { messages: [{ role: "user", content: text }] },
    ],
    "server:// to a tool": [() => read("server://demo/long"), contents("server://demo/long", "text/plain")],
    "cid:// to content": [() => read(`cid://${cid.cid}`), contents(`cid://${cid.cid}`, "application/json", STORED)],
  };
  for (const [way, [lead, expected]] of Object.entries(ways)) {
    it(way, async () => {
      let given: object | undefined;
      const seen = await longJsonIn(async () => void (given = await lead()));
      assert.deepEqual(seen, []);
      const { description: _description, ...rest } = JSON.parse(String(jsonOf(given!))) as Record<string, unknown>;
      assert.deepEqual(rest, expected);
    });
  }

  it("a failure is told with its text", async () => {
    await assert.rejects(read("lead://server://demo/broken"), { code: "guest_failed", message: /long ä long ä/ });
    await assert.rejects(read("server://demo/broken"), { code: "guest_failed", message: /long ä long ä/ });
  });
});
