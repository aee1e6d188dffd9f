import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ToolContract } from "../../src/contract/contract.ts";
import { typeText } from "../../src/contract/signature.ts";
import { entryText } from "../../src/edits/mcps-text.ts";
import { ENTRY_ITEMS_MAX } from "../../src/entry/entry.ts";
import { readNamedEntry } from "../../src/entry/mcps.ts";
import { schemaTables } from "../../src/http/pages/parts/schema-rows.ts";
import { toolView } from "../../src/http/pages/parts/tool-view.ts";
import { mergeMcps } from "../../src/image/apply.ts";
import { decodeJson, jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { ENTRY_NESTING_MAX, type JsonSchema } from "../../src/lib/json.ts";
import { apiOf, type Api } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { openHosted } from "../support/host.ts";
import { lower } from "../support/lowered-limits.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

/** An entry of `levels` levels, with `inner` in the last. */
const deep = (levels: number, inner = ""): string =>
  `{"options":{"hello":{"list":${"[".repeat(levels - 3)}${inner}${"]".repeat(levels - 3)}}}}`;
const zeros = (count: number): string => Array(count).fill(0).join(",");

describe("an entry that nests deep", () => {
  let berth: TestBerth;
  let api: Api;
  const hello = "export const hello = (): string => 'hello';\n";
  before(async () => {
    berth = await startTestBerth({ texts: { "hello.ts": hello, "other.ts": hello } });
    api = apiOf(berth);
  });
  after(() => berth?.close());
  const helloOf = async (server: string): Promise<unknown> =>
    (await call(`${berth.url}/mcp/${server}`, "hello")).structuredContent;

  it("is refused by its first field that is too deep, with the place of that", () => {
    assert.deepEqual(readNamedEntry("demo", JSON.parse(deep(ENTRY_NESTING_MAX))).problems, []);
    const { problems, refused } = readNamedEntry("demo", JSON.parse(deep(ENTRY_NESTING_MAX + 1)));
    assert.equal(refused, true);
    assert.deepEqual(
      problems.map(({ code, pointer }) => [code, pointer]),
      [["too-deep", `/demo/options/hello/list${"/0".repeat(ENTRY_NESTING_MAX - 3)}`]],
    );
  });

  it("is not saved, and costs nobody anything", async () => {
    for (const text of [deep(ENTRY_NESTING_MAX + 1), deep(1_000, zeros(20_000)), deep(5_000)]) {
      for (const [method, path] of [
        ["PUT", "/entries/hello"],
        ["POST", "/entries/hello/review"],
      ] as const) {
        const { status, body } = await api.send(method, path, text, { "If-Match": "*" });
        const problems = method === "PUT" ? body.error.data.problems : body.problems;
        assert.equal(status, method === "PUT" ? 422 : 200, JSON.stringify(body).slice(0, 500));
        assert.match(problems[0].message, /nests at most 64 levels deep|nested too deeply/);
        assert.ok(JSON.stringify(body).length < 10_000);
      }
    }
    assert.deepEqual(await helloOf("hello"), { result: "hello" });
  });

  it("or has thousands of values far inside is not written with indents", () => {
    const text = deep(ENTRY_NESTING_MAX, zeros(100_000));
    assert.equal(entryText(JSON.parse(text)), `${text}\n`);
    assert.equal(entryText({ options: { a: [0] } }), `${JSON.stringify({ options: { a: [0] } }, null, 2)}\n`);
  });

  it("of an earlier version keeps an image's changes out of the configuration, and says so", async () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    const { value, entries } = await mergeMcps({
      base: bytes("{}"),
      mine: bytes(`{"demo":${deep(20_000)}}`),
      theirs: bytes('{"other":{}}'),
      read: async () => undefined,
    });
    assert.equal(value, undefined);
    assert.match(entries[0]!.message!, /"demo" .* nests more than 64 levels deep/);
  });

  it("of a store that an earlier version left refuses its own server, is read, and can be mended", async () => {
    const { body } = await api.send("GET", "/variables/mcps");
    const entries = JSON.parse(body.files.mcps) as Record<string, unknown>;
    const kept = JSON.stringify(entries["hello"]);
    for (const text of [deep(1_000, zeros(20_000)), deep(20_000)]) {
      const whole = JSON.stringify({ ...entries, hello: "HELLO" }).replace('"HELLO"', text);
      const value = rawBlock(whole);
      const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
      await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [value], set }));
      await until(async () => (await call(`${berth.url}/mcp/hello`, "hello")).error !== undefined);
      assert.deepEqual(await helloOf("other"), { result: "hello" });
      const read = await api.send("GET", "/entries/hello");
      assert.equal(read.status, 200, JSON.stringify(read.body).slice(0, 500));
      assert.equal(read.body.files.hello, `${text}\n`);
      const { body: history } = await api.send("GET", "/entries/hello/history");
      assert.equal(history.versions[0].cid, read.cid);
      const mended = await api.send("PUT", "/entries/hello", kept, { "If-Match": `"${read.cid}"` });
      assert.equal(mended.status, 200, JSON.stringify(mended.body).slice(0, 500));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    }
  });
});

describe("a configuration of very many entries, or values", () => {
  let berth: TestBerth;
  let api: Api;
  let own: string;
  const hello = "export const hello = (): string => 'hello';\n";
  before(async () => {
    const env = { BERTH_MCPS_ENTRIES: "4", BERTH_ENTRY_VALUES: "100", BERTH_VARIABLES_PER_TENANT: "2" };
    berth = await startTestBerth({ texts: { "hello.ts": hello, "other.ts": hello }, env });
    api = apiOf(berth);
    own = JSON.stringify(JSON.parse((await api.send("GET", "/variables/mcps")).body.files.mcps));
  });
  after(() => berth?.close());
  const helloOf = async (server: string): Promise<unknown> =>
    (await call(`${berth.url}/mcp/${server}`, "hello")).structuredContent;
  /** The configuration with further members. */
  const withMore = (members: string): string => `${own.slice(0, -1)},${members}}`;
  const disabled = (count: number): string =>
    Array.from({ length: count }, (_, n) => `"a${n}":{"enabled":false}`).join(",");
  const listOf = (items: string): string => `{"options":{"hello":{"list":[${items}]}}}`;

  it("is saved as long as there are no more than there may be", async () => {
    const most = { entries: disabled(2), values: `"a":${listOf(zeros(96))}` };
    for (const members of Object.values(most)) {
      const { body } = await api.send("POST", "/variables/mcps/review", withMore(members));
      assert.doesNotMatch(JSON.stringify(body.problems), /too-many/);
    }
  });

  it("variablesPerTenant: stands beside so many variables, each of which can still be saved", async () => {
    assert.equal((await api.put("/variables/one", "1")).status, 201);
    const more = await api.put("/variables/two", "2");
    assert.equal(more.status, 422);
    assert.match(more.body.error.message, /There are 2 variables, and the limit is 2/);
    assert.equal((await api.put("/variables/one", "one")).status, 200);
    assert.equal((await api.send("DELETE", "/variables/one", undefined, { "If-Match": "*" })).status, 200);
    assert.equal((await api.put("/variables/two", "2")).status, 201);
  });

  const cases = [
    { what: "one entry", members: () => disabled(3), says: /more than 4 entries/ },
    { what: "20,000 entries", members: () => disabled(20_000), says: /more than 4 entries/ },
    {
      what: "one value",
      members: () => `"a":${listOf(zeros(97))}`,
      says: /at most 100 values/,
    },
    { what: "100,000 numbers", members: () => `"a":${listOf(zeros(100_000))}`, says: /at most 100 values/ },
    {
      what: "100,000 lists",
      members: () => `"a":${listOf(Array(100_000).fill("[]").join())}`,
      says: /at most 100 values/,
    },
  ];
  for (const { what, members, says } of cases) {
    it(`is refused before any of them is read: ${what} too many`, async () => {
      const value = withMore(members());
      let answers: Awaited<ReturnType<Api["send"]>>[] = [];
      const read = await jsonRead(async () => {
        answers = [
          await api.send("PUT", "/variables/mcps", value, { "If-Match": "*" }),
          await api.send("POST", "/variables/mcps/review", value),
        ];
      });
      const [saved, reviewed] = answers.map(({ body }) => body);
      assert.match(saved.error.message, says);
      assert.match(reviewed.problems[0].message, says);
      assert.deepEqual(reviewed.servers, []);
      if (value.length > 100_000) assert.ok(read.longest < 50_000 && read.count < 200, JSON.stringify(read));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    });
  }

  it("is refused where one entry, or one definition, would make them too many", async () => {
    const saved = await api.put("/variables/mcps", withMore(disabled(2)));
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
    const refused = [
      await api.put("/entries/further", '{"enabled":false}'),
      await api.put("/definitions/further", hello),
      await api.put("/entries/a0", listOf(zeros(97))),
      await api.put("/entries/a0", listOf(zeros(300_000))),
    ];
    assert.deepEqual(
      refused.map(({ status, body }) => [
        status,
        /at most 100 values|more than 4 entries/.exec(body.error.message)?.[0],
      ]),
      [
        [422, "more than 4 entries"],
        [422, "more than 4 entries"],
        [422, "at most 100 values"],
        [422, "at most 100 values"],
      ],
    );
    assert.equal((await api.put("/variables/mcps", own)).status, 200);
  });

  it("refuses the entry alone where it stands in a store already, which can be mended", async () => {
    const list = listOf(zeros(300_000));
    const apart = rawBlock(list);
    for (const [entry, put] of [
      [list, []],
      [`{"config_cid":"${apart.cid}"}`, [apart]],
    ] as const) {
      const value = rawBlock(own.replace(/"hello":\{[^}]*\}/, `"hello":${entry}`));
      const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
      await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [...put, value], set }));
      await until(async () => /at most 100 values/.test(JSON.stringify(await call(`${berth.url}/mcp/hello`, "hello"))));
      assert.deepEqual(await helloOf("other"), { result: "hello" });
      const mended = await api.put("/entries/hello", JSON.stringify((JSON.parse(own) as { hello: object }).hello));
      assert.equal(mended.status, 200, JSON.stringify(mended.body));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    }
  });

  it("gives no servers where it stands in a store already, and the others serve on", async () => {
    const value = rawBlock(withMore(disabled(3)));
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [value], set }));
    await until(async () => (await call(`${berth.url}/mcp/hello`, "hello")).error !== undefined);
    assert.equal((await api.put("/variables/mcps", own)).status, 200);
    assert.deepEqual(await helloOf("hello"), { result: "hello" });
  });
});

/** The number of times that this thread reads JSON meanwhile, and the longest length. */
async function jsonRead(work: () => Promise<void>): Promise<{ count: number; longest: number }> {
  const read = { count: 0, longest: 0 };
  const { parse } = JSON;
  JSON.parse = (...given) => {
    read.count += 1;
    read.longest = Math.max(read.longest, given[0].length);
    return parse(...given) as unknown;
  };
  try {
    await work();
  } finally {
    JSON.parse = parse;
  }
  return read;
}

describe("a schema that is far longer written out than as it is", () => {
  /** Each level is five times as large as its inner one. */
  const types = ["string", "number", "boolean", "null", "array"];
  const exponential = (levels: number): JsonSchema =>
    levels === 0 ? { type: "string" } : { anyOf: types.map(() => ({ type: "array", items: exponential(levels - 1) })) };
  const nested = (levels: number): JsonSchema =>
    JSON.parse(`${'{"type":"array","items":'.repeat(levels)}{}${"}".repeat(levels)}`) as JsonSchema;
  const tool = (schema: JsonSchema): ToolContract => ({
    name: "t",
    description: "d".repeat(1_000_000),
    inputSchema: { type: "object", properties: { a: schema, b: { ...schema, description: "d".repeat(1_000_000) } } },
    outputSchema: schema,
  });

  it("has the beginning of its signature, and of each of its texts, on a page", () => {
    const long = { type: "string", default: "x".repeat(1_000_000), pattern: "y".repeat(1_000_000) };
    for (const schema of [exponential(7), nested(4_000), { enum: ["z".repeat(1_000_000)] }, long]) {
      let rows = "";
      const view = toolView(
        tool(schema),
        true,
        schemaTables((each) => (rows += JSON.stringify(each))),
      );
      assert.ok(view.signature.length < 100_000, `a signature of ${view.signature.length}`);
      assert.ok(rows.length < 50_000, `rows of ${rows.length}`);
      assert.ok(view.description.length < 20_000);
      assert.ok(typeText(schema).length < 5_000);
    }
  });

  it("is given as JSON without indents", async () => {
    const enumerated = JSON.parse(`[${"[".repeat(40)}${zeros(20_000)}${"]".repeat(40)}]`) as unknown[];
    const inputSchema = { type: "object", properties: { a: { enum: enumerated } } };
    const demo = { definition: "demo.ts", tools: { say: { inputSchema } } };
    const berth = await startTestBerth({
      texts: { "demo.ts": "export const say = (a: string): string => a;\n" },
      mcps: { demo },
    });
    try {
      const text = await (await fetch(`${berth.url}/mcp/meta/demo?tool=say`)).text();
      assert.deepEqual((JSON.parse(text) as ToolContract).inputSchema, inputSchema);
      assert.ok(text.length < 50_000, `${text.length} characters`);
    } finally {
      await berth.close();
    }
  });
});

/** `count` resources of an entry, or of a contract. */
const resources = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`r${n}`, `a:${n}`]));
const entryResources = (count: number) =>
  Object.fromEntries(Object.entries(resources(count)).map(([name, uri]) => [name, { uri, text: name }]));

describe("an entry of thousands of things", () => {
  it("is refused, and none of them is looked at", () => {
    const all = { tools: resources, resources: entryResources, prompts: resources };
    for (const [field, of] of Object.entries(all)) {
      const { problems, refused, entry } = readNamedEntry("demo", { [field]: of(ENTRY_ITEMS_MAX + 1) });
      assert.equal(refused, true);
      assert.deepEqual(
        problems.map(({ code, pointer }) => [code, pointer]),
        [["too-many-items", `/demo/${field}`]],
      );
      assert.match(problems[0]!.message, new RegExp(`${ENTRY_ITEMS_MAX + 1} ${field}.*at most ${ENTRY_ITEMS_MAX}`));
      assert.deepEqual(entry.leftOut, { tools: [], prompts: [], resources: [] });
    }
    const { problems, entry } = readNamedEntry("demo", { resources: entryResources(ENTRY_ITEMS_MAX) });
    assert.deepEqual([problems, entry.resources.length], [[], ENTRY_ITEMS_MAX]);
  });

  it("has a page with the first hundred of each kind, and how many more there are", async () => {
    const template = { uriTemplate: "t:{x}", content: "variable://{x}" };
    const message = { role: "user", content: "Hi" };
    const prompts = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`p${n}`, { messages: [message] }]));
    const many = { resources: { ...entryResources(150), template }, prompts };
    const berth = await startTestBerth({ mcps: { many } });
    try {
      const page = await (await fetch(`${berth.url}/mcp/meta/many`, { headers: { Accept: "text/html" } })).text();
      assert.equal(page.match(/<dt><code>a:/g)?.length, 100);
      assert.equal(page.match(/<dt><code>p\d/g)?.length, 100);
      assert.match(page, /51 more resources; clients get all/);
      assert.match(page, /1 more prompt; clients get all/);
    } finally {
      await berth.close();
    }
  });

  it("or one that nests deep, of an earlier release, is served as it was", async () => {
    const hosted = await openHosted({ words: "export const say = (): string => 'one';\n" });
    try {
      const structure = async (cid: string) =>
        decodeJson((await hosted.store.content("default", cid))!) as Record<string, unknown>;
      const parts = await structure((await hosted.catalog("words")).release);
      const count = ENTRY_ITEMS_MAX + 500;
      const options = { say: { list: (JSON.parse(deep(200)) as { options: unknown }).options } };
      const config = rawBlock(JSON.stringify({ options, resources: entryResources(count) }));
      const listed = Object.entries(resources(count)).map(([name, uri]) => ({ uri, name }));
      const contract = jsonBlock({ ...(await structure(parts["contract"] as string)), resources: listed });
      const release = jsonBlock({ ...parts, config: config.cid, contract: contract.cid });
      const set = [{ kind: "release", name: "words", cid: release.cid }] as const;
      await hosted.store.change("default", { by: "test", put: [config, contract, release], set });
      const catalog = await hosted.catalog(`words@${release.cid}`);
      assert.equal(catalog.contract.resources.length, count);
      assert.deepEqual(await (await catalog.resource("a:1499"))!.read({}), {
        contents: [{ uri: "a:1499", mimeType: "text/plain", text: "r1499" }],
      });
      assert.equal(await catalog.gives("a:1500"), false);
      assert.equal(await catalog.gives("a:1499"), true);
    } finally {
      await hosted.close();
    }
  });

  for (const [limit, most, told] of [
    ["contractBytes", 20_000, /more than 20000 bytes together/],
    ["contractValues", 1_000, /more than 1000 values together/],
  ] as const) {
    it(`${limit}: is refused where they have more together, though one function has their schema once`, async () => {
      const hosted = await openHosted({});
      const restore = lower({ [limit]: most });
      try {
        const definition = rawBlock("export const say = (text: string): string => text;\n");
        const tools = (count: number) =>
          Object.fromEntries(Array.from({ length: count }, (_, n) => [`t${n}`, { function: "say" }]));
        const mcps = (count: number) =>
          rawBlock(JSON.stringify({ words: { definition: definition.cid, tools: tools(count) } }));
        const define = async (count: number): Promise<void> => {
          const value = mcps(count);
          const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
          await hosted.store.change("default", { by: "test", put: [definition, value], set });
          await hosted.host.reload("default");
        };
        await define(20);
        const { release } = await hosted.catalog("words");
        await define(500);
        await assert.rejects(hosted.catalog("words"), told);
        assert.equal((await hosted.catalog(`words@${release}`)).contract.tools.length, 20);
      } finally {
        restore();
        await hosted.close();
      }
    });
  }
});
