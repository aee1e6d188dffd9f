import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { after, before, beforeEach, describe, it, mock } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Bodies } from "../../src/http/body.ts";
import { readingBounds } from "../../src/lib/reading-bounds.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { SECRET_BYTES } from "../../src/secrets/secret-rules.ts";
import { apiOf } from "../support/api.ts";
import { post, request, withStatus } from "../support/berth.ts";
import { rigFor } from "../support/mcp-host.ts";
import { connectRaw, rawPost, type RawConnection } from "../support/raw-http.ts";
import { contextOf } from "../support/request-context.ts";
import { allRoutes } from "../support/routes.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { turnsIn } from "../support/turns-in.ts";
import { until } from "../support/until.ts";

const own = "export function own(): string { return 'own'; }";

/** As many members as fit into `bytes`, which takes longest to parse. */
function members(bytes: number): string {
  const parts: string[] = [];
  for (let length = 2, at = 0; ; at++) {
    const part = `"k${at.toString(36)}":0`;
    length += part.length + 1;
    if (length > bytes) return `{${parts.join()}}`;
    parts.push(part);
  }
}

describe("a body of the JSON API", () => {
  const berth = berthInSuite({ texts: { "own.ts": own } });

  const parse = mock.method(JSON, "parse");
  beforeEach(() => parse.mock.resetCalls());
  after(() => parse.mock.restore());
  /** The longest text that the serving thread has parsed as JSON: others wait for as long as that takes. */
  const parsedUnits = (): number => Math.max(...parse.mock.calls.map(({ arguments: [text] }) => text.length));

  const long = members(2 * readingBounds.inlineBodyBytes);
  const writes = allRoutes.flatMap(([path, { stack }]) =>
    stack.flatMap(({ route }) =>
      ["PUT", "POST", "DELETE"]
        .filter((method) => route!.stack.some((layer) => layer.method === method.toLowerCase()))
        .map((method) => [method, `/api${path}${route!.path}`] as const),
    ),
  );
  const posts = ["/sign-in", "/servers/own/own"].map((path) => ["POST", path] as const);
  for (const [method, path] of [...writes, ...posts]) {
    it(`${method} ${path} is parsed off-thread where it is long`, async () => {
      for (const type of ["application/json", "text/plain"]) {
        const response = await fetch(berth.url + path.replace(/:name/, "fresh").replace(/:\w+/, "none"), {
          method,
          headers: { "Content-Type": type, "If-None-Match": "*" },
          body: long,
        });
        const text = await response.text();
        assert.ok(response.status < 500, text);
        assert.ok(parsedUnits() <= readingBounds.inlineBodyBytes, `${parsedUnits()} units: ${response.status} ${text}`);
      }
    });
  }

  it("has at most 64 KiB if it holds only a few names", async () => {
    const wish = { can: ["call"], name: "x".repeat(65_536) };
    const refused = await withStatus(413, apiOf(berth).send("POST", "/tokens", wish));
    assert.match(refused.body.error.message, /65536 bytes; send less/);
  });

  it("is a secret of SECRET_BYTES, however it is written", async () => {
    const api = apiOf(berth);
    const value = "\u0001".repeat(SECRET_BYTES);
    assert.equal((await api.send("PUT", "/secrets/LONG", { value })).status, 204);
    assert.equal((await api.send("PUT", "/secrets/LONG", value)).status, 204);
    assert.equal((await api.send("PUT", "/secrets/LONG", { value: `${value}.` })).status, 422);
    assert.equal((await api.send("PUT", "/secrets/LONG", { value, more: 1 })).status, 400);
    assert.equal((await api.send("PUT", "/secrets/LONG", "x".repeat(7 * SECRET_BYTES))).status, 413);
  });

  it("is a configuration of many servers, which is parsed one by one", async () => {
    const servers = Array.from({ length: 3_000 }, (_, at) => [`s${at}`, { description: "x".repeat(100) }]);
    const response = await fetch(`${berth.url}/api/variables/mcps/review`, {
      method: "POST",
      headers: { "Content-Type": "text/plain" },
      body: JSON.stringify(Object.fromEntries(servers)),
    });
    assert.match(await response.text(), /missing-definition/);
    assert.ok(parsedUnits() <= readingBounds.inlineBodyBytes, String(parsedUnits()));
  });

  it("says of a long draft what it says of a short one", async () => {
    const send = (body: string) =>
      fetch(`${berth.url}/api/definitions/other/review`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body,
      });
    const filler = " ".repeat(100_000);
    for (const wrong of ["{", "[]", '{"entry":"a","files":{"a":1}}']) {
      const [short, long] = [await send(wrong), await send(wrong + filler)];
      assert.deepEqual([long.status, long.status], [short.status, 400]);
      if (wrong !== "{") assert.deepEqual(await long.json(), await short.json());
    }
    const files = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`f${at}`, ""]));
    const many = await withStatus(400, send(JSON.stringify({ entry: "f0", files })));
    assert.match(await many.text(), /at most 256 files, not 10000/);
  });
});

describe("a body longer than inlineBodyBytes, where that is lowered", () => {
  const berth = berthInSuite({ texts: { "own.ts": own }, env: { BERTH_INLINE_BODY_BYTES: "1000" } });

  it("is parsed elsewhere, and a shorter one here", async (context) => {
    const parsed: string[] = [];
    const { parse } = JSON;
    context.mock.method(JSON, "parse", (text: string, reviver: Parameters<typeof parse>[1]) => {
      parsed.push(text);
      return parse(text, reviver) as unknown;
    });
    const isParsedHere = (body: string): boolean => parsed.some((text) => text.includes(body));
    for (const [mark, isHere] of [
      ["a".repeat(200), true],
      ["b".repeat(1_500), false],
    ] as const) {
      await withStatus(200, post(`${berth.url}/mcp/own`, request("tools/call", { name: "own", arguments: { mark } })));
      assert.equal(isParsedHere(`"mark":"${mark}"`), isHere, `a call, ${mark.length}`);
      const draft = { entry: "a.ts", files: { "a.ts": `// ${mark}` } };
      assert.equal((await apiOf(berth).send("POST", "/definitions/fresh/review", draft)).status, 200);
      assert.equal(isParsedHere(JSON.stringify(draft)), isHere, `a draft, ${mark.length}`);
    }
  });
});

describe("bodies that are not whole", () => {
  const berth = berthInSuite({
    texts: { "own.ts": own },
    env: {
      BERTH_UNFINISHED_BODY_BYTES: "500000",
      BERTH_UNFINISHED_BODY_BYTES_PER_TENANT: "300000",
      BERTH_UNFINISHED_SIGN_IN_BYTES: "10000",
    },
  });
  before(() =>
    onStoreOf(berth, async (store) => {
      for (const tenant of ["one", "two"]) await addTenant(store, tenant, { servers: { own } });
    }),
  );

  async function heldBytes(): Promise<number> {
    const metrics = await (await fetch(`${berth.url}/metrics`)).text();
    return Number(/^berth_unfinished_body_bytes (\d+)$/m.exec(metrics)![1]);
  }

  async function begin(tenant: string, bytes: number, path = "/mcp/own"): Promise<RawConnection> {
    const connection = await connectRaw(berth.url);
    const head = [
      `POST /t/${tenant}${path} HTTP/1.1`,
      `Host: ${new URL(berth.url).host}`,
      "Content-Type: application/json",
      "Accept: application/json",
      `Content-Length: ${bytes + 1}`,
    ];
    const held = await heldBytes();
    connection.socket.write(`${head.join("\r\n")}\r\n\r\n${" ".repeat(bytes)}`);
    await until(async () => (await heldBytes()) === held + bytes);
    return connection;
  }
  /** Longer than a chunk. */
  const long = () => request("ping", { filler: "x".repeat(200_000) });
  const ping = (tenant: string, body: unknown = request("ping")) =>
    post(`${berth.url}${tenant === "default" ? "" : `/t/${tenant}`}/mcp/own`, body);

  it("are refused to a tenant above unfinishedBodyBytesPerTenant, and to no other", async () => {
    const begun = await begin("one", 200_000);
    const { status, headers, body } = await ping("one", long());
    assert.equal(status, 429);
    assert.equal(headers.get("retry-after"), "1");
    assert.match(body.error.message, /"one".*300000 bytes.*; try again in 1 s/);
    assert.equal((await ping("two", long())).status, 200);
    assert.equal((await ping("one")).status, 200);
    begun.socket.destroy();
    await until(async () => (await heldBytes()) === 0);
    assert.equal((await ping("one", long())).status, 200);
  });

  it("of sign-ins, which anybody may send, take nothing of a tenant's room", async () => {
    const begun = [await begin("one", 6_000, "/sign-in"), await begin("one", 4_000, "/sign-in")];
    // With 290,000 bytes more, the tenant would exceed its limit.
    begun.push(await begin("one", 294_000));
    const refused = await connectRaw(berth.url);
    refused.socket.write(rawPost("/t/two/sign-in", "x", { Host: new URL(berth.url).host, "Content-Length": "4000" }));
    await refused.until(/^HTTP\/1.1 503[^]*10000 bytes of incomplete bodies/);
    begun.push(refused);
    for (const { socket } of begun) socket.destroy();
    await until(async () => (await heldBytes()) === 0);
  });

  it("a sign-in of more than 8 KiB is refused", async () => {
    const signIn = (length: number) => post(`${berth.url}/sign-in`, { token: "x".repeat(length) });
    assert.equal((await signIn(4_000)).status, 401);
    const { body } = await withStatus(413, signIn(8_192));
    assert.match(body.error.message, /8192 bytes/);
  });

  it("take no more memory than they have bytes, in however small pieces they come", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const connection = await connectRaw(berth.url);
    connection.socket.write(
      rawPost("/t/one/mcp/own", "", { "Content-Length": undefined, "Transfer-Encoding": "chunked" }),
    );
    const pieces = "1\r\n \r\n".repeat(200_000);
    collect();
    const before = process.memoryUsage().heapUsed;
    connection.socket.write(pieces);
    await until(async () => (await heldBytes()) === 200_000);
    collect();
    const megabytes = (process.memoryUsage().heapUsed - before) / 1e6;
    assert.ok(megabytes < 10, `200,000 bytes take ${megabytes} MB`);
    connection.socket.destroy();
    await until(async () => (await heldBytes()) === 0);
  });

  it("are refused to everybody above unfinishedBodyBytes, until one is whole or its client has gone", async () => {
    const begun = [await begin("one", 200_000), await begin("two", 200_000)];
    const { status, headers, body } = await ping("default", long());
    assert.equal(status, 503);
    assert.equal(headers.get("retry-after"), "1");
    assert.match(body.error.message, /500000 bytes.*; try again in 1 s/);
    assert.equal((await ping("one")).status, 200);
    begun[0]!.socket.write("1");
    await begun[0]!.until(/^HTTP\/1.1 400/);
    begun[1]!.socket.destroy();
    await until(async () => (await heldBytes()) === 0);
    assert.equal((await ping("default", long())).status, 200);
  });
});

describe("a long body that is no ASCII", () => {
  const read = (bytes: Buffer): Promise<string> => {
    const request = Object.assign(Readable.from([bytes]), {
      headers: { "content-length": String(bytes.length) },
      url: "/mcp/own",
    });
    return new Bodies(defaultLimits).read(contextOf({ request }));
  };

  it("is decoded in turns with calls of others, and no character of it is cut in two", async () => {
    for (const character of ["é", "€", "😀", "aé€😀"]) {
      const text = character.repeat(defaultLimits.bodyBytes / Buffer.byteLength(character));
      let decoded = "";
      const turns = await turnsIn(async () => (decoded = await read(Buffer.from(text))));
      assert.ok(decoded === text, character);
      assert.ok(turns >= 2, `${turns} turns`);
    }
  });

  it("is refused where it is no UTF-8, wherever that is", async () => {
    const bytes = Buffer.from("€".repeat(1_000_000));
    for (const end of [1, 262_144, 262_145, 999_998, 2_999_999]) {
      await assert.rejects(read(bytes.subarray(0, end)), /UTF-8/, `cut at ${end}`);
    }
    for (const at of [0, 262_143, 262_144, 1_500_001]) {
      const wrong = Buffer.from(bytes);
      wrong[at] = 0xff;
      await assert.rejects(read(wrong), /UTF-8/, `wrong at ${at}`);
      wrong.fill(0x80, at, at + 9);
      await assert.rejects(read(wrong), /UTF-8/, `no beginning at ${at}`);
    }
  });
});

it("heldBodyBytesPerTenant: further ones are refused until some are answered, and those of others are not", async (t) => {
  const rig = await rigFor(t, {}, { heldBodyBytesPerTenant: 20_000 });
  let goOn!: () => void;
  const isOver = new Promise<string>((resolve) => (goOn = () => resolve("over")));
  let begun = 0;
  rig.host.offer("one", { tools: { wait: () => ((begun += 1), isOver) } });
  const url = rig.url("one");
  const call = (units: number) =>
    post(url, request("tools/call", { name: "wait", arguments: { text: "x".repeat(units) } }));
  const first = call(30_000);
  await until(() => begun === 1);
  const refused = await withStatus(429, call(5_000));
  assert.equal(refused.headers.get("retry-after"), "1");
  assert.match(JSON.stringify(refused.body), /20000 characters are in progress/);
  const short = call(100);
  await until(() => begun === 2);
  goOn();
  assert.deepEqual([(await first).status, (await short).status], [200, 200]);
  assert.equal((await call(5_000)).status, 200);
});
