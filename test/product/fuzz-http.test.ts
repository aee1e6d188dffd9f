import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { makeImage, post, request as rpc } from "../support/berth.ts";
import * as fc from "../support/fast-check.ts";
import { body, DEFINITION, headers, headersOf } from "../support/fuzz-messages.ts";
import { memoryOf } from "../support/processes.ts";
import { connectRaw, eventsOf, rawPost } from "../support/raw-http.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const options = { numRuns: fc.runs(20), interruptAfterTimeLimit: 60_000, markInterruptAsFailure: false };

describe("arbitrary requests over HTTP", () => {
  const folder = temporaryFolder();
  let served: ServeProcess;
  let url: string;
  let log = "";
  let secrets = 0;
  before(async () => {
    const image = await makeImage(folder, { texts: { "fuzz.ts": DEFINITION } });
    // A service of its own, so that no error handler of a test can hide a crash.
    served = await ServeProcess.start([], { ...image, BERTH_LOG: "error" });
    served.child.stderr!.on("data", (chunk: string) => (log += chunk));
    ({ url } = served);
  });
  after(() => served.end("SIGTERM"));

  /** All output for these bytes; a stream, which may stay open, is left after another request unless `isWhole`. */
  const exchange = async (bytes: string, isWhole = false): Promise<string> => {
    const connection = await connectRaw(url);
    connection.socket.write(bytes);
    if (isWhole) await connection.ended();
    // The connection may end before.
    else await connection.until(/^HTTP\/1.1 200 [^]*text\/event-stream[^]*\r\n\r\n/).then(isAlive, () => {});
    connection.socket.destroy();
    return connection.text();
  };

  const isAlive = async (): Promise<void> => {
    const { status, body: answer } = await post(`${url}/mcp/fuzz`, rpc("ping", undefined, "alive"));
    assert.deepEqual([status, answer.id], [200, "alive"]);
    assert.equal(served.child.exitCode, null);
    assert.doesNotMatch(log, /"level":(50|60)/, log.slice(-3000));
  };

  /** Checks each reply that came over one connection. */
  const checkReplies = (text: string, sent: string): void => {
    assert.doesNotMatch(text, /node_modules|\/src\/|\.js:\d+|at [A-Z]\w+\./, "it shows no internals");
    for (const { status, head, body } of repliesOf(text)) {
      assert.ok(status >= 200 && status < 600, `an answer to ${sent}: ${text}`);
      if (/text\/event-stream/.test(head)) eventsOf(body).forEach((event) => assert.equal(event["jsonrpc"], "2.0"));
      else if (body !== "" && /application\/json/.test(head)) checkAnswer(status, body);
    }
  };

  const checkAnswer = (status: number, text: string): void => {
    const answer = JSON.parse(text) as { error?: { code: number; data?: { reference?: string } } };
    if (status === 500) {
      assert.equal(answer.error?.code, -32603);
      assert.match(answer.error?.data?.reference ?? "", /^[0-9a-f-]{36}$/);
    }
    if (status >= 400) assert.ok(answer.error, text);
  };

  it("with any body, headers and method get a valid response", async () => {
    const method = fc.oneof(
      { weight: 8, arbitrary: fc.constant("POST") },
      { weight: 2, arbitrary: fc.constantFrom("GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH") },
    );
    const path = fc.oneof(
      { weight: 6, arbitrary: fc.constant("/mcp/fuzz") },
      {
        weight: 2,
        arbitrary: fc.constantFrom("/mcp", "/mcp/", "/mcp/fuzz/sse", "/mcp/fuzz/messages?sessionId=1", "/mcp/no"),
      },
      { weight: 1, arbitrary: fc.webPath().map((each) => `/mcp/${each}`) },
    );
    const one = fc.tuple(method, path, headers, body, fc.boolean()).map(([verb, where, given, text, isModern]) => {
      const sound = isModern ? { "Content-Type": "application/json", ...headersOf(text) } : {};
      const bytes = rawPost(where, text, {
        "Content-Type": "application/json",
        ...given,
        ...sound,
        Connection: "close",
      });
      return { bytes: bytes.replace(/^POST/, verb), verb };
    });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { minLength: 8, maxLength: 8 }), async (requests) => {
        const replies = await Promise.all(requests.map(({ bytes }) => exchange(bytes)));
        for (const [index, reply] of replies.entries()) {
          const { bytes, verb } = requests[index]!;
          if (verb !== "HEAD") checkReplies(reply, bytes);
        }
        await isAlive();
      }),
      options,
    );
  });

  it("of arbitrary bytes get a refusal at most", async () => {
    const head = rawPost("/mcp/fuzz", "", { "Content-Length": undefined });
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }).map((each) => Buffer.from(each)),
      fc
        .uint8Array({ maxLength: 300 })
        .map((each) =>
          Buffer.concat([
            Buffer.from(`${head.slice(0, -4)}\r\nConnection: close\r\nContent-Length: ${each.length}\r\n\r\n`),
            each,
          ]),
        ),
      fc
        .tuple(fc.nat(head.length), fc.uint8Array({ maxLength: 10 }))
        .map(([at, each]) => Buffer.concat([Buffer.from(head.slice(0, at)), each, Buffer.from(head.slice(at))])),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { minLength: 8, maxLength: 8 }), async (each) => {
        const connections = await Promise.all(each.map(() => connectRaw(url)));
        for (const [index, { socket }] of connections.entries()) socket.end(each[index]!);
        for (const connection of connections) {
          const text = await connection.ended();
          if (text !== "") checkReplies(text, "bytes");
        }
        await isAlive();
      }),
      { ...options, examples: [[[Buffer.from(`${head}A`)]]] },
    );
  });

  it("get nothing of another request in their response", async () => {
    const tool = fc.constantFrom("echo", "words", "fail", "add", "no-such");
    const era = fc.constantFrom("modern", "legacy", "stream");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(tool, era), { minLength: 20, maxLength: 20 }), async (calls) => {
        const asked = calls.map(([name, how]) => {
          const secret = `secret-${++secrets}-`;
          const args = { message: secret, text: `${secret} ${secret}`, ...(name === "add" && { a: secret }) };
          const modernMeta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
          };
          const _meta = { ...(how !== "legacy" && modernMeta), ...(how === "stream" && { progressToken: secret }) };
          const text = JSON.stringify(rpc("tools/call", { _meta, name, arguments: args }, secret));
          const bytes = rawPost("/mcp/fuzz", text, { ...(how !== "legacy" && headersOf(text)), Connection: "close" });
          return { secret, bytes };
        });
        const replies = await Promise.all(asked.map(({ bytes }) => exchange(bytes, true)));
        for (const [index, reply] of replies.entries()) {
          const { secret } = asked[index]!;
          assert.ok(reply.includes(`"id":"${secret}"`), `${secret}: ${reply}`);
          assert.deepEqual([...new Set(reply.match(/secret-\d+-/g))], [secret]);
        }
      }),
      options,
    );
    await isAlive();
  });

  it("do not increase the memory of the process", { skip: process.platform !== "linux" && "reads /proc" }, async () => {
    const load = async (rounds: number): Promise<void> => {
      const samples = fc.sample(fc.tuple(body, headers), { numRuns: 40 });
      for (let round = 0; round < rounds; round++) {
        await Promise.all(
          samples.map(async ([text, given]) => {
            const isStream = given["Accept"]?.includes("event-stream") || text.includes("subscriptions/listen");
            const all = {
              "Content-Type": "application/json",
              ...given,
              ...headersOf(text),
              ...(isStream && { Accept: "application/json" }),
            };
            await exchange(rawPost("/mcp/fuzz", text, { ...all, Connection: "close" }));
          }),
        );
      }
    };
    await load(20);
    const before = memoryOf(served.child.pid!).nowMb;
    await load(40);
    const grown = memoryOf(served.child.pid!).nowMb - before;
    assert.ok(grown < 40, `${grown.toFixed(1)} MB more after 1600 requests`);
    await isAlive();
  });
});

/** The replies on one connection; a refused request may be followed by another reply. */
function repliesOf(text: string): { readonly status: number; readonly head: string; readonly body: string }[] {
  return text.split(/(?=HTTP\/1\.1 \d{3} )/).map((reply) => {
    const [, status, head, body] = /^HTTP\/1\.1 (\d{3}) ([^]*?\r\n\r\n)([^]*)$/.exec(reply) ?? assert.fail(reply);
    return { status: Number(status), head: head!, body: body! };
  });
}
