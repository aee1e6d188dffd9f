import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { longDecodedIn, longJsonIn } from "../../support/long-json.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";

const UNIT = 'long ä "quoted" ';
const TEXT = UNIT.repeat(20_000);
const DEFINITION = `
const long = ${JSON.stringify(UNIT)}.repeat(20_000);
const link = { type: "resource_link", uri: "test://a", name: "a", description: "The first" };
export function text(): string { return long; }
export function untyped() { return { content: [{ type: "text", text: long }] }; }
export function several() { return { content: [{ type: "text", text: long }, link] }; }
export function bytes(): Uint8Array { return new TextEncoder().encode(long); }
export function value(): { long: string } { return { long }; }
export function broken() { return { content: [{ type: "text", text: long }], isError: true }; }
`;
const LINK = { type: "resource_link", uri: "test://a", name: "a", description: "The first" };

describe("a long result is written as it was made where long values are read", () => {
  const berth = berthInSuite({ texts: { "demo.ts": DEFINITION }, mcps: { demo: { definition: "demo.ts" } } });

  const whole = (content: readonly object[]): string => JSON.stringify({ content });
  const said = { type: "text", text: TEXT };
  const bare: Readonly<Record<string, readonly [type: string, body: string]>> = {
    text: ["text/plain; charset=utf-8", TEXT],
    untyped: ["text/plain; charset=utf-8", TEXT],
    bytes: ["application/octet-stream", TEXT],
    value: ["application/json", JSON.stringify({ long: TEXT })],
    several: ["application/json", whole([said, LINK])],
  };
  for (const [name, [type, body]] of Object.entries(bare)) {
    it(`by plain HTTP: ${name}`, async () => {
      let answer: Response | undefined;
      const seen = await longJsonIn(async () => {
        answer = await fetch(`${berth.url}/servers/demo/${name}`);
        assert.equal(await answer.text(), body);
      });
      assert.deepEqual(seen, []);
      assert.deepEqual([answer!.status, answer!.headers.get("content-type")], [200, type]);
    });
  }

  it("an error is told by plain HTTP, and in a native call's events, by its beginning", async () => {
    const seen = await longJsonIn(async () => {
      const failed = await fetch(`${berth.url}/servers/demo/broken`);
      assert.equal(failed.status, 422);
      const { error } = JSON.parse(await failed.text()) as { error: { message: string } };
      assert.ok(error.message.includes(TEXT.slice(0, 60_000)) && error.message.length < 70_000);

      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "demo.broken", params: {} });
      const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
      const events = await (await fetch(`${berth.url}/mcp/demo`, { method: "POST", headers, body })).text();
      const message = /"result":\{"type":"error","message":"((?:[^"\\]|\\.)*)"/.exec(events)![1]!;
      assert.ok(message.length > 60_000 && message.length < 80_000, `${message.length}`);
      assert.ok(events.length > TEXT.length, "the answer has all of it");
    });
    // The event itself, which is as long as an error may be told.
    const areExpected = seen.every((by) => /(servers-route|native\/call-natively)/.test(by));
    assert.ok(areExpected, seen.join());
  });

  it("in a batch and in a stream of a session, decoded nowhere at a stretch", async () => {
    const url = `${berth.url}/mcp/demo`;
    const params = { name: "text", arguments: {} };
    const content = [{ type: "text", text: TEXT }];
    const older = await LegacyClient.start(url, "2025-03-26");
    const newer = await LegacyClient.start(url, "2025-11-25");
    const call = (id: number) => ({ jsonrpc: "2.0", id, method: "tools/call", params });
    const seen = await longDecodedIn(async () => {
      const batch = await older.send([call(1), call(2)]);
      const answers = (await batch.nextMessage()) as { id: number; result: JsonObject }[];
      assert.deepEqual(rows(answers, "id"), ["1", "2"]);
      for (const { result } of answers) assert.deepEqual(result["content"], content);
      // Such a client wants a stream, which outlives its connection.
      const stream = await newer.send(call(3), { Accept: "text/event-stream, application/json" });
      assert.equal(stream.headers.get("content-type"), "text/event-stream");
      assert.deepEqual((await stream.nextMessage()).result.content, content);
    });
    assert.deepEqual(seen, []);
  });
});
