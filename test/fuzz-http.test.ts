import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as fc from "fast-check";
import { post, request as rpc, startTestBerth, type TestBerth } from "./berth.ts";
import { body, DEFINITION, headers, headersOf } from "./fuzz-messages.ts";
import { connectRaw, eventsOf, rawPost } from "./raw-http.ts";
import { CLI } from "./stdio-session.ts";
import { memoryOf } from "./processes.ts";

const runs = Number(process.env["BERTH_FUZZ_RUNS"] ?? 60);
const options = { numRuns: runs, interruptAfterTimeLimit: 60_000, markInterruptAsFailure: false };

describe("arbitrary requests over HTTP", () => {
  let maker: TestBerth;
  let folder: string;
  let child: ChildProcess;
  let url: string;
  let log = "";
  let secrets = 0;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-fuzz-"));
    maker = await startTestBerth({ texts: { "fuzz.ts": DEFINITION } });
    const args = ["serve", "--port", "0", "--image", join(maker.folder, "boot"), "--data", join(folder, "data")];
    // A service of its own: nothing that a test catches can hide what it would die of.
    child = spawn(process.execPath, [CLI, ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, BERTH_LOG: "error" },
    });
    url = await new Promise<string>((resolve) => {
      child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
        log += chunk;
        const found = /Berth serves (http:\S+)\/mcp/.exec(log)?.[1];
        if (found) resolve(found);
      });
    });
  });
  after(async () => {
    child?.kill("SIGTERM");
    await maker?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** All that comes for these bytes; a stream that stays open is left after a while. */
  const exchange = async (bytes: string | Buffer): Promise<string> => {
    const connection = await connectRaw(url);
    connection.socket.write(bytes);
    for (let waited = 0; waited < 200; waited++) {
      const isOver = await Promise.race([connection.closed.then(() => true), sleep(50, false)]);
      if (isOver) break;
      if (/^HTTP\/1.1 200 [\s\S]*text\/event-stream[\s\S]*\r\n\r\n/.test(connection.text()) && waited > 3) break;
    }
    connection.socket.destroy();
    return connection.text();
  };

  const isAlive = async (): Promise<void> => {
    const { status, body: answer } = await post(`${url}/mcp/fuzz`, rpc("ping", undefined, "alive"));
    assert.deepEqual([status, answer.id], [200, "alive"]);
    assert.equal(child.exitCode, null);
    assert.doesNotMatch(log, /"level":(50|60)/, log.slice(-3000));
  };

  const checkReply = (reply: string, sent: string): void => {
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(reply)?.[1]);
    assert.ok(status >= 200 && status < 600, `no answer to ${sent}: ${reply}`);
    assert.doesNotMatch(
      reply,
      /node_modules|\/src\/|\.js:\d+|at [A-Z]\w+\./,
      "the insides of the service are not shown",
    );
    const [head = "", ...rest] = reply.split("\r\n\r\n");
    const text = rest.join("\r\n\r\n");
    if (/text\/event-stream/.test(head)) {
      eventsOf(text.replace(/\r\n[0-9a-f]+\r\n/g, "")).forEach((event) => assert.equal(event["jsonrpc"], "2.0"));
      return;
    }
    if (text === "" || !/application\/json/.test(head)) return;
    const answer = JSON.parse(text) as { error?: { code: number; data?: { reference?: string } }; jsonrpc?: string };
    if (status === 500) {
      assert.equal(answer.error?.code, -32603);
      assert.match(answer.error?.data?.reference ?? "", /^[0-9a-f-]{36}$/);
    }
    if (status >= 400) assert.ok(answer.error, reply);
  };

  it("no body, header or method gets more than an answer", async () => {
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
          if (verb !== "HEAD") checkReply(reply, bytes);
        }
        await isAlive();
      }),
      options,
    );
  });

  it("no bytes get more than a refusal", async () => {
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
        for (const { closed, socket } of connections) {
          const text = await Promise.race([closed, sleep(12_000, "")]);
          socket.destroy();
          if (text !== "") checkReply(text, "bytes");
        }
        await isAlive();
      }),
      options,
    );
  });

  it("nothing of one request stands in the answer to another", async () => {
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
        const replies = await Promise.all(asked.map(({ bytes }) => exchange(bytes)));
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

  it(
    "memory stays where it is, however much is sent",
    { skip: process.platform !== "linux" && "reads /proc" },
    async () => {
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
      const before = memoryOf(child.pid!).nowMb;
      await load(40);
      const grown = memoryOf(child.pid!).nowMb - before;
      assert.ok(grown < 40, `${grown.toFixed(1)} MB more after 1600 requests`);
      await isAlive();
    },
  );
});
