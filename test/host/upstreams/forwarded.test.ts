import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LongObject, LongResult } from "../../../src/host/offers/long-result.ts";
import { LongToolResult } from "../../../src/host/offers/upstream-results.ts";
import {
  packEnd,
  packError,
  packRound,
  unpackEnd,
  unpackError,
  unpackRound,
  type ForwardedPart,
} from "../../../src/host/upstreams/forwarded.ts";
import type { RoundEnd } from "../../../src/host/upstreams/upstream-call.ts";
import { digestOfJson } from "../../../src/lib/canonical-json.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { JsonText } from "../../../src/lib/json.ts";
import { LongText } from "../../../src/lib/long-text.ts";
import { serialize, TransferReader } from "../../../src/lib/transfer.ts";
import { UpstreamError } from "../../../src/upstream/messages/upstream-error.ts";

/** The value as it comes out at the other node. */
function sent<T>(value: T): T {
  const [came] = new TransferReader(1024 * 1024).push(Buffer.concat(serialize(value)));
  return came as T;
}

const utf8 = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
const digest = { bytes: 2, sha256: "x" };

describe("a call of an upstream on its way to another node", () => {
  it("has the request of its caller, what may be asked, and who hears its lines", () => {
    const heard: unknown[] = [];
    const tool = { name: "add", inputSchema: { type: "object" } };
    const round = packRound(
      { method: "tools/call", name: "add", args: { a: 1 }, served: tool, meta: { m: 1 }, isLegacy: true },
      {
        principal: { id: "ada" },
        client: { capabilities: { elicitation: {} } },
        answers: { key: { action: "accept" } },
        onLog: (line) => void heard.push(line),
      },
      5_000,
    );
    const parts: ForwardedPart[] = [];
    const { request, options } = unpackRound(sent(round), (part) => parts.push(part));
    assert.ok(request.method === "tools/call" && typeof request.served === "string", "its contract is named");
    const { served, servedForm, ...rest } = request;
    assert.equal(servedForm, served, "it has no default that may change");
    assert.deepEqual(rest, { method: "tools/call", name: "add", args: { a: 1 }, meta: { m: 1 }, isLegacy: true });
    assert.deepEqual(options.principal, { id: "ada" });
    assert.deepEqual(options.client, { capabilities: { elicitation: {} } });
    assert.deepEqual(options.answers, { key: { action: "accept" } });
    assert.equal(options.deadlineMs, 5_000);
    assert.equal(options.onProgress, undefined, "nobody hears progress");
    options.onLog!({ level: "info", message: "hi" });
    assert.deepEqual(parts, [{ log: { level: "info", message: "hi" } }]);
  });

  it("has long arguments as the text that they are", () => {
    const args = new JsonText('{"a":1}', digest).with({ b: 2 });
    args.digest = digestOfJson({ a: 1, b: 2 });
    const round = packRound({ method: "tools/call", name: "add", args }, {}, 1);
    const { request } = unpackRound(sent(round), () => {});
    assert.ok(request.method === "tools/call" && request.args instanceof JsonText);
    assert.equal(request.args.text, '{"a":1,"b":2}');
    assert.deepEqual([request.args.digest, request.args.givenDigest], [args.digest, args.givenDigest]);
  });

  it("comes back with its result, short or long, and with its questions", () => {
    const back = (end: RoundEnd<object>): RoundEnd<object> => unpackEnd(sent(packEnd(end)));
    const short = { ended: { content: [{ type: "text", text: "hi" }], structuredContent: { a: [1] } } };
    assert.deepEqual(back(short), short);
    const asks = { inputRequests: { key: { method: "elicitation/create", params: { message: "Who?" } } } } as const;
    assert.deepEqual(back(asks), asks);

    const parts = { content: utf8('[{"type":"text","text":"ä"}]'), blocks: 1, isError: false, size: 30, digest };
    const older = { "2025-03-26": utf8("[]"), "2024-11-05": utf8("[1]") };
    const result = new LongResult({ ...parts, older, structured: utf8("{}") });
    const long = new LongToolResult({ result, transient: "later" }, ["odd"]);
    const came = back({ ended: long }) as { ended: LongToolResult };
    assert.ok(came.ended instanceof LongToolResult && came.ended.ended.result instanceof LongResult);
    assert.deepEqual([came.ended.warnings, came.ended.ended.transient], [["odd"], "later"]);
    assert.equal(String(came.ended.ended.result.text), String((long.ended.result as LongResult).text));
    assert.equal(String(came.ended.ended.result.writtenFor("2024-11-05")), '{"content":[1]}');

    const asked = back({ ended: new LongToolResult({ result: asks }, []) }) as { ended: LongToolResult };
    assert.deepEqual(asked.ended.ended, { result: asks });

    const text = new LongText('{"contents":', utf8("[]"), "}");
    const object = new LongObject({ text, digest, older, file: "sha256:y" });
    const read = back({ ended: object }) as { ended: LongObject };
    assert.ok(read.ended instanceof LongObject);
    assert.deepEqual([String(read.ended.text), read.ended.file], ['{"contents":[]}', "sha256:y"]);
    assert.deepEqual(Buffer.from(read.ended.older!["2024-11-05"]).toString(), "[1]");
  });

  it("comes back with its error, with what is said to whom", () => {
    const data = { rpc: -32602, message: "no", data: { a: 1 } };
    const error = new UpstreamError("upstream_refused", "no (1)", { data, stderr: "s" });
    const refused = unpackError(sent(packError(error)!));
    assert.ok(refused instanceof UpstreamError);
    const { code, detail, stderr } = refused;
    assert.deepEqual([code, detail, refused.data, stderr], ["upstream_refused", "no (1)", data, "s"]);
    const plain = unpackError(sent(packError(new BerthError("upstream_changed", "it has"))!));
    assert.deepEqual([plain instanceof UpstreamError, plain.message], [false, "The upstream has changed: it has"]);
    assert.equal(packError(new Error("a bug")), undefined, "the log of its node alone has it");
    const newer = { ...packError(plain)!, code: "from the future" as never };
    assert.equal(unpackError(newer).code, "internal");
  });
});
