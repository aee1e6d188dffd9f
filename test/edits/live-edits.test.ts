import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, modern, withStatus } from "../support/berth.ts";
import { officialSession } from "../support/clients/official-session.ts";
import { rows } from "../support/rows.ts";
import { berthFor, berthInSuite, closeAfter } from "../support/suite.ts";
import { until } from "../support/until.ts";

const add = (more = ""): string =>
  `/** Adds. */\nexport function add(a: number, b: number${more}): number {\n  return a + b;\n}\n`;
const hello = "/** Greets. */\nexport const hello = (name: string): string => `Hello ${name}`;\n";

const toolsOf = async (url: string): Promise<string[]> => {
  const { body } = await modern(url, "tools/list");
  return (body.result.tools as { name: string }[]).map(({ name }) => name);
};
const etag = (cid: string): Record<string, string> => ({ "If-Match": `"${cid}"` });

describe("an edit while Berth runs", () => {
  const berth = berthInSuite({
    texts: { "demo.ts": add(), "other.ts": hello },
    env: { BERTH_VARIABLE_BYTES: "5000", BERTH_MCPS_BYTES: "8000" },
  });
  const api = apiOf(berth);
  const at = (server: string): string => `${berth.url}/mcp/${server}`;

  it("of the variable mcps takes effect without a restart, and only in what it says (C7)", async () => {
    const { cid, body } = await api.send("GET", "/variables/mcps");
    const text = body.files.mcps as string;
    const described = text.replace('"demo": {', '"demo": {\n    "description":   "Sums",');
    const saved = await withStatus(200, api.send("PUT", "/variables/mcps", described, etag(cid)));
    assert.deepEqual(rows(saved.body.review.servers, "server", "outcome"), ["demo changed"]);
    const { body: discovered } = await modern(at("demo"), "server/discover");
    assert.equal(discovered.result.instructions, "Sums");
    assert.equal((await api.send("GET", "/variables/mcps")).body.files.mcps, described);
    await api.put("/variables/mcps", text);
  });

  it("of a definition takes effect at once, and says what it does to callers and to whom", async () => {
    const { cid } = await api.send("GET", "/definitions/demo");
    const optional = await withStatus(200, api.send("PUT", "/definitions/demo", add(", c = 0"), etag(cid)));
    assert.equal(optional.body.review.breaking, false);
    const [effect] = optional.body.review.servers;
    assert.deepEqual(effect.changes[0].pointer, "/inputSchema/properties/c");
    assert.equal(effect.changes[0].effect, "compatible");
    const { structuredContent } = await call(at("demo"), "add", { a: 1, b: 2, c: 3 });
    assert.deepEqual(structuredContent, { result: 3 });
    const code = await api.put("/definitions/demo", add(", c = 0").replace("a + b", "a + b + c"));
    assert.deepEqual(code.body.review.servers[0].changes, []);
    assert.deepEqual(code.body.review.servers[0].newBehaviour, ["add"]);
    assert.deepEqual((await call(at("demo"), "add", { a: 1, b: 2, c: 3 })).structuredContent, { result: 6 });
    await api.put("/definitions/demo", add(), { "Berth-Allow-Breaking": "true" });
  });

  it("that breaks callers is asked about first, and the old release stays where it was", async () => {
    const { body: current } = await modern(at("demo"), "tools/list");
    const { body: listed } = await api.send("GET", "/servers/demo/releases");
    const release = listed.releases.find((each: { current: boolean }) => each.current).release as string;
    const breaking = await withStatus(409, api.put("/definitions/demo", add(", c: number")));
    assert.equal(breaking.body.error.code, "edit_breaking");
    assert.match(breaking.body.error.data.review.servers[0].changes[0].message, /"c" is new and required/);
    assert.deepEqual((await modern(at("demo"), "tools/list")).body.result.tools, current.result.tools);

    await withStatus(200, api.put("/definitions/demo", add(", c: number"), { "Berth-Allow-Breaking": "true" }));
    assert.equal((await call(at("demo"), "add", { a: 1, b: 2 })).isError, true);
    assert.deepEqual((await call(`${at("demo")}@${release}`, "add", { a: 1, b: 2 })).structuredContent, { result: 3 });

    // Going back breaks callers that give the new argument.
    assert.equal((await api.send("POST", `/servers/demo/releases/${release}/restore`)).status, 409);
    await withStatus(200, api.send("POST", `/servers/demo/releases/${release}/restore?allow_breaking=1`));
    assert.deepEqual((await call(at("demo"), "add", { a: 1, b: 2 })).structuredContent, { result: 3 });
    const { body: again } = await api.send("GET", "/servers/demo/releases");
    assert.equal(again.releases[0].release, release);
    assert.equal(again.releases[0].current, true);
    const [newer] = again.releases.slice(1);
    const { body: diff } = await api.send("GET", `/servers/demo/diff?from=${release}&to=${newer.release}`);
    assert.equal(diff.changes[0].effect, "breaking");
  });

  it("that is wrong is refused with file, line and column, and changes nothing", async () => {
    const state = async (): Promise<unknown> => [
      (await api.send("GET", "/variables/mcps/history")).body,
      (await api.send("GET", "/definitions/demo/history")).body,
      (await api.send("GET", "/servers/demo/releases")).body,
    ];
    const stood = await state();
    const wrong = await api.put("/definitions/demo", "export function add(a: number {\n  return a;\n}\n");
    assert.equal(wrong.status, 422);
    const [problem] = wrong.body.error.data.problems;
    assert.deepEqual([problem.file, problem.line, problem.column], ["demo.ts", 1, 31]);
    assert.match(wrong.body.error.message, /demo\.ts:1:31/);
    const unsupported = await api.put("/definitions/demo", `${add()}export function bad(f: () => void) {}\n`);
    assert.equal(unsupported.status, 422);
    assert.equal(unsupported.body.error.data.problems[0].tool, "bad");
    assert.deepEqual(await state(), stood);
    assert.deepEqual(await toolsOf(at("demo")), ["add"]);
  });

  it("that makes mcps malformed is refused, with every problem where it stands (T1.4)", async () => {
    const { body } = await api.send("GET", "/variables/mcps");
    const syntax = await withStatus(422, api.put("/variables/mcps", '{\n  "demo": {,\n}'));
    assert.deepEqual([syntax.body.error.data.problems[0].line, syntax.body.error.data.problems[0].column], [2, 12]);
    const fields = (body.files.mcps as string).replace('"demo": {', '"demo": {\n    "enabled": 3,\n    "tols": {},');
    const wrong = await withStatus(422, api.put("/variables/mcps", fields));
    const { problems } = wrong.body.error.data;
    assert.deepEqual(rows(problems, "line", "pointer"), ["3 /demo/enabled", "4 /demo/tols"]);
    const none = await api.put("/variables/mcps", "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy");
    assert.equal(none.body.error.data.problems[0].code, "missing-content");
    assert.equal((await api.send("GET", "/variables/mcps")).cid, body.cid);
    assert.deepEqual(await toolsOf(at("demo")), ["add"]);
  });

  it("of one entry leaves the text of all others as it is", async () => {
    const { body } = await api.send("GET", "/variables/mcps");
    const text = `${(body.files.mcps as string).replace('"other": {', '"other":   {').trimEnd()}\n\n`;
    await api.put("/variables/mcps", text);
    const entry = await api.send("GET", "/entries/demo");
    assert.equal(entry.body.language, "json");
    const described = { ...JSON.parse(entry.body.files.demo), description: "Sums" };
    const saved = await api.send("PUT", "/entries/demo", JSON.stringify(described, null, 2), etag(entry.cid));
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
    assert.equal(saved.cid, (await api.send("GET", "/entries/demo")).cid);
    const now = (await api.send("GET", "/variables/mcps")).body.files.mcps as string;
    assert.equal(now, text.replace(/("definition": "[^"]+")\n/, '$1,\n    "description": "Sums"\n'));

    const wrong = await api.send("POST", "/entries/demo/review", '{\n  "description": 7\n}');
    const { line, pointer, file } = wrong.body.problems[0];
    assert.deepEqual({ line, pointer, file }, { line: 2, pointer: "/description", file: "demo" });
    const { body: history } = await api.send("GET", "/entries/demo/history");
    const version = await api.send("GET", `/entries/demo/versions/${history.versions[1].cid}`);
    assert.equal(version.body.files.demo, entry.body.files.demo);
    const diff = await api.send("GET", `/entries/demo/diff?from=${history.versions[1].cid}`);
    assert.match(diff.body, /\n\+ {2}"description": "Sums"\n/);
  });

  it("of problems elsewhere in mcps knows nothing: they never keep an edit out", async () => {
    const { body } = await api.send("GET", "/variables/mcps");
    const broken = `${(body.files.mcps as string).trimEnd().slice(0, -1).trimEnd()},\n  "broken": {"definition": 7}\n}\n`;
    assert.equal((await api.put("/variables/mcps", broken)).status, 422);
    // A problem with another origin, as an older Berth could leave.
    const missing = { definition: "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy" };
    assert.equal((await api.put("/entries/lost", JSON.stringify(missing))).status, 422);
    await withStatus(201, api.put("/entries/lost", JSON.stringify({ ...missing, enabled: false })));
    assert.equal((await api.put("/definitions/other", hello.replace("Hello", "Hi"))).status, 200);
    assert.equal((await api.send("DELETE", "/entries/lost", undefined, { "If-Match": "*" })).status, 200);
  });

  it("makes a new server, and takes one away", async () => {
    const refused = await api.send("PUT", "/definitions/fresh", "#!/bin/fish\n", { "If-None-Match": "*" });
    const [problem] = refused.body.error.data.problems;
    assert.deepEqual(
      [refused.status, problem.code, problem.file, problem.line],
      [422, "bad-interpreter", "fresh.sh", 1],
    );
    const made = await api.send("PUT", "/definitions/fresh", "#!/bin/sh\necho fresh\n", { "If-None-Match": "*" });
    assert.equal(made.status, 201);
    assert.equal(made.body.review.servers[0].outcome, "added");
    assert.deepEqual(await toolsOf(at("fresh")), ["fresh"]);
    assert.equal((await api.send("GET", "/entries/fresh")).body.files.fresh, "{}\n");
    assert.equal((await api.send("PUT", "/definitions/fresh", "x", { "If-None-Match": "*" })).status, 412);
    assert.equal((await api.send("DELETE", "/definitions/fresh", undefined, etag(made.cid))).status, 409);
    await withStatus(200, api.send("DELETE", "/definitions/fresh?allow_breaking=1", undefined, etag(made.cid)));
    assert.equal((await modern(at("fresh"), "tools/list")).status, 404);
    assert.equal((await api.send("GET", "/entries/fresh")).status, 404);
    const { body } = await api.send("GET", "/definitions/fresh/history");
    assert.deepEqual(rows(body.versions, "cid"), ["-", made.cid]);
  });

  it("of several files is one definition", async () => {
    const files = {
      "many/main.ts":
        'import { twice } from "./lib/math.ts";\n/** Doubles. */\nexport const double = (x: number): number => twice(x);\n',
      "many/lib/math.ts": "export const twice = (x: number): number => 2 * x;\n",
    };
    const made = await api.send("PUT", "/definitions/many", { entry: "many/main.ts", files }, { "If-None-Match": "*" });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.deepEqual((await call(at("many"), "double", { x: 4 })).structuredContent, { result: 8 });
    const { body } = await api.send("GET", "/definitions/many");
    assert.deepEqual([body.entry, body.files], ["many/main.ts", files]);
    const outside = await api.send("POST", "/definitions/many/review", {
      entry: "../x.ts",
      files: { "../x.ts": "", "y.ts": "" },
    });
    assert.equal(outside.body.problems[0].code, "bad-path");
    await api.send("DELETE", "/definitions/many?allow_breaking=1", undefined, { "If-Match": "*" });
  });

  it("of two people at once is told to the second, and loses nothing", async () => {
    const { cid } = await api.send("GET", "/definitions/demo");
    const texts = ["one", "two"].map((name) => `${add()}export const ${name} = (): number => 1;\n`);
    const replies = await Promise.all(texts.map((text) => api.send("PUT", "/definitions/demo", text, etag(cid))));
    assert.deepEqual(rows(replies, "status").sort(), ["200", "412"]);
    const won = replies.find(({ status }) => status === 200)!;
    const lost = replies.find(({ status }) => status === 412)!;
    assert.equal(lost.body.error.data.current, won.cid);
    assert.equal((await api.send("GET", "/definitions/demo")).cid, won.cid);
    // Edits of different servers stand in one variable, and both go through.
    const both = await Promise.all([
      api.put("/definitions/demo", add(", d = 1"), { "Berth-Allow-Breaking": "true" }),
      api.put("/definitions/other", hello.replace("Hello", "Good day")),
    ]);
    assert.deepEqual(rows(both, "status"), ["200", "200"]);
    assert.equal((await call(at("other"), "hello", { name: "you" })).content[0].text, "Good day you");
    assert.deepEqual((await call(at("demo"), "add", { a: 1, b: 2, d: 3 })).structuredContent, { result: 3 });
  });

  for (const mode of ["legacy", "modern"] as const) {
    it(`is heard by ${officialSession(mode).name} that listens`, async (t) => {
      const session = closeAfter(t, await officialSession(mode).open(at("demo")));
      await session.tools();
      const saved = await api.put("/definitions/demo", `${add(", d = 1")}export const ${mode} = (): number => 1;\n`, {
        "Berth-Allow-Breaking": "true",
      });
      assert.equal(saved.status, 200, JSON.stringify(saved.body));
      const { toolLists } = session.heard;
      await until(() => toolLists.length > 0);
      assert.deepEqual(toolLists.at(-1), ["add", mode]);
    });
  }

  it("of another variable is kept with its history and limits", async () => {
    await withStatus(201, api.put("/variables/greeting", "Hello"));
    await api.put("/variables/greeting", "Hi");
    const { body } = await api.send("GET", "/variables/greeting");
    assert.deepEqual([body.files.greeting, body.language, body.by], ["Hi", "text", "api"]);
    assert.equal(
      (await api.put("/variables/greeting", "x".repeat(5001))).body.error.data.problems[0].code,
      "too-large",
    );
    assert.equal((await api.put("/variables/no%20name", "x")).body.error.data.problems[0].code, "bad-name");
    assert.equal((await api.send("DELETE", "/variables/nothing", undefined, { "If-Match": "*" })).status, 412);
    const { body: list } = await api.send("GET", "/variables");
    assert.deepEqual(rows(list.variables, "name"), ["greeting", "mcps"]);
  });

  it("says what it replaces, and in what form", async () => {
    const to = "/variables/greeting";
    assert.equal((await api.send("PUT", to, "x")).status, 428);
    assert.equal((await api.send("PUT", to, "x", { "If-Match": "W/x" })).status, 400);
    assert.equal((await api.send("PUT", to, "x", { "If-Match": "*", "Content-Type": "text/html" })).status, 415);
    assert.equal((await api.send("PUT", to, [1], { "If-Match": "*" })).status, 400);
    const other = await api.send("PATCH", to, "x");
    assert.deepEqual([other.status, other.headers.get("allow")], [405, "GET, HEAD, PUT, DELETE"]);
    assert.equal((await api.send("GET", "/definitions/nobody")).status, 404);
  });
});

it("a read-only Berth refuses every write (invariant 9)", async (t) => {
  const berth = await berthFor(t, { texts: { "demo.ts": add() }, config: { image: "readonly" } });
  const api = apiOf(berth);
  const { cid } = await api.send("GET", "/definitions/demo");
  await modern(`${berth.url}/mcp/demo`, "tools/list");
  const writes: [string, string, unknown?][] = [
    ["PUT", "/definitions/demo", add(", c = 0")],
    ["PUT", "/variables/mcps", "{}"],
    ["PUT", "/variables/new", "x"],
    ["PUT", "/entries/demo", "{}"],
    ["DELETE", "/definitions/demo"],
    ["POST", "/definitions/demo/review", add()],
    ["POST", `/servers/demo/releases/${cid}/restore`],
  ];
  for (const [method, path, body] of writes) {
    const condition: Record<string, string> = path.endsWith("new") ? { "If-None-Match": "*" } : { "If-Match": "*" };
    const reply = await api.send(method, path, body, path.endsWith("restore") ? {} : condition);
    assert.deepEqual([path, reply.status, reply.body.error.code], [path, 403, "read_only"]);
  }
  assert.equal((await api.send("GET", "/definitions/demo")).cid, cid);
});
