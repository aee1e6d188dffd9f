import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { post, request as rpc, startTestBerth, type TestBerth } from "../support/berth.ts";
import { cli } from "../support/commands.ts";
import * as fc from "../support/fast-check.ts";
import { body, DEFINITION, headers, headersOf } from "../support/fuzz-messages.ts";
import { memoryOf } from "../support/processes.ts";
import { connectRaw, eventsOf, rawPost } from "../support/raw-http.ts";
import { until } from "../support/until.ts";

const options = { numRuns: fc.runs(20), interruptAfterTimeLimit: 60_000, markInterruptAsFailure: false };

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
    // A service of its own, so that no error handler of a test can hide a crash.
    child = spawn(process.execPath, [cli, ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, BERTH_LOG: "error" },
    });
    url = await new Promise<string>((resolve, reject) => {
      child.once("exit", () => reject(new Error(`Berth ended: ${log}`)));
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

  /** All output for these bytes; a stream, which may stay open, is left after a while unless `isWhole`. */
  const exchange = async (bytes: string, isWhole = false): Promise<string> => {
    const connection = await connectRaw(url);
    let isClosed = false;
    const closed = connection.closed.then(() => (isClosed = true));
    connection.socket.write(bytes);
    const isStream = (): boolean => /^HTTP\/1.1 200 [^]*text\/event-stream[^]*\r\n\r\n/.test(connection.text());
    await until(() => isClosed || (!isWhole && isStream()), `an answer to ${bytes}`);
    await Promise.race([closed, sleep(200, undefined, { ref: false })]);
    connection.socket.destroy();
    return connection.text();
  };

  const isAlive = async (): Promise<void> => {
    const { status, body: answer } = await post(`${url}/mcp/fuzz`, rpc("ping", undefined, "alive"));
    assert.deepEqual([status, answer.id], [200, "alive"]);
    assert.equal(child.exitCode, null);
    assert.doesNotMatch(log, /"level":(50|60)/, log.slice(-3000));
  };

  /** Checks each reply that came over one connection. */
  const checkReplies = (text: string, sent: string): void => {
    assert.doesNotMatch(
      text,
      /node_modules|\/src\/|\.js:\d+|at [A-Z]\w+\./,
      "the insides of the service are not shown",
    );
    const replies = repliesOf(text);
    assert.ok(replies.length > 0, `no answer to ${sent}`);
    for (const { status, head, body } of replies) {
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
          if (verb !== "HEAD") checkReplies(reply, bytes);
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
        for (const connection of connections) {
          const text = await connection.ended();
          if (text !== "") checkReplies(text, "bytes");
        }
        await isAlive();
      }),
      { ...options, examples: [[[Buffer.from(`${head}A`)]]] },
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

/** Replies on one connection, parsed by hand according to RFC 9112: several may follow each other. */
interface RawReply {
  readonly status: number;
  /** The status line and the headers. */
  readonly head: string;
  /** Without chunk framing; as far as it came. */
  readonly body: string;
}

/** The replies in a text of one character per byte; throws for any other text between them. */
function repliesOf(text: string): RawReply[] {
  const replies: RawReply[] = [];
  for (let rest = text; rest !== "";) {
    const [head, status] = /^HTTP\/1\.1 (\d{3}) [^]*?\r\n\r\n/.exec(rest) ?? [];
    if (head === undefined) throw new Error(`no reply begins here: ${rest.slice(0, 2_000)}`);
    const { body, after } = bodyOf(Number(status), head, rest.slice(head.length));
    replies.push({ status: Number(status), head, body });
    rest = after;
  }
  return replies;
}

function bodyOf(status: number, head: string, rest: string): { body: string; after: string } {
  if (status < 200 || status === 204 || status === 304) return { body: "", after: rest };
  if (/^Transfer-Encoding: chunked\r$/im.test(head)) return dechunked(rest);
  const length = /^Content-Length: (\d+)\r$/im.exec(head)?.[1];
  // Neither: the body ends with the connection.
  const end = length === undefined ? rest.length : Number(length);
  return { body: rest.slice(0, end), after: rest.slice(end) };
}

function dechunked(text: string): { body: string; after: string } {
  let body = "";
  for (let rest = text; ;) {
    const [line, size] = /^([0-9a-f]+)\r\n/i.exec(rest) ?? [];
    // It was cut off.
    if (line === undefined) return { body, after: "" };
    const end = line.length + Number.parseInt(size!, 16);
    body += rest.slice(line.length, end);
    rest = rest.slice(end + "\r\n".length);
    if (end === line.length) return { body, after: rest };
  }
}
