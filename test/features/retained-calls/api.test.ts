import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, modern, post, request } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { berthInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const CALCULATOR = `
/** Divides one number by another. */
export function divide(a: number, b: number): number {
  if (b === 0) throw new Error("cannot divide " + a + " by zero");
  return a / b;
}
export function repeat(text: string, times: number): string { return text.repeat(times); }
`;

const VALUE = 'hunter2 "very/secret" +[value]\\ $& é';
const UNREAD = "only-its-caller-says-this-secret";
const context = 'context: import("berth").ToolContext';
/** It may return whatever it likes. */
const TELLER = `
export async function tell(how: string, ${context}): Promise<unknown> {
  const value = (await context.secret("API_TOKEN")) ?? "nothing";
  const bytes = Buffer.from(value);
  if (how === "plain") return "it is " + value;
  if (how === "base64") return "it is " + bytes.toString("base64");
  if (how === "hex") return "it is " + bytes.toString("hex");
  if (how === "url") return "https://example.org/?token=" + encodeURIComponent(value);
  if (how === "json") return { inner: JSON.stringify({ token: value }), [value]: [value] };
  throw new Error("failed with " + value);
}
export function echo(text: string): string { return "you said " + text; }
/**
 * @param password Signs in
 * @format password
 */
export function signIn(user: string, password: string): string { throw new Error(user + " has not the password " + password); }
`;

interface Kept {
  readonly id: number;
  readonly at: number;
  readonly tool: string;
  readonly outcome: string;
  readonly principal: string | null;
}

describe("retained calls", () => {
  const berth = berthInSuite({
    texts: { "calculator.ts": CALCULATOR, "teller.ts": TELLER, "silent.ts": CALCULATOR },
    mcps: {
      calculator: { definition: "calculator.ts", retain_calls: "7d" },
      teller: { definition: "teller.ts", secrets: ["API_TOKEN", "OTHER_TOKEN"], retain_calls: "1h" },
    },
    env: { BERTH_RETAINED_CALL_BYTES: "2000", BERTH_RETAINED_CALLS: "20", BERTH_RETAINED_CALL_DELAY_MS: "20" },
  });
  const api = apiOf(berth);
  before(async () => {
    for (const [name, value] of Object.entries({ API_TOKEN: VALUE, OTHER_TOKEN: UNREAD }))
      assert.equal((await api.send("PUT", `/secrets/${name}`, value)).status, 204);
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { calculator: CALCULATOR } }));
  });

  const listOf = async (server: string, query = "", at = api): Promise<Kept[]> =>
    (await at.send("GET", `/servers/${server}/calls${query}`)).body.calls;
  /** The calls of a server, once so many are kept. */
  const keptOf = (server: string, count: number, query = ""): Promise<Kept[]> =>
    until(async () => {
      const calls = await listOf(server, query);
      return calls.length === count ? calls : undefined;
    }, `${count} calls of ${server} are kept`);
  // Each call's own answer.
  // oxlint-disable-next-line typescript/no-explicit-any
  const one = async (server: string, id: number): Promise<any> =>
    (await api.send("GET", `/servers/${server}/calls/${id}`)).body;
  const use = (server: string, tool: string, args: Record<string, unknown>, at = "") =>
    call(`${berth.url}${at}/mcp/${server}`, tool, args);

  it("have arguments, and the result or the error with its place, whatever revision they came by", async () => {
    const before = Date.now();
    await use("calculator", "divide", { a: 6, b: 3 });
    await modern(`${berth.url}/mcp/calculator`, "tools/call", { name: "divide", arguments: { a: 1, b: 0 } });
    await use("calculator", "divide", { a: "six", b: 3 });
    await use("silent", "divide", { a: 6, b: 3 });
    const calls = await keptOf("calculator", 3);
    const facts = calls.map(({ tool, outcome, principal }) => `${tool} ${outcome} ${principal}`);
    assert.deepEqual(new Set(facts), new Set(["divide ok null", "divide error null", "divide invalid null"]));
    for (const { at } of calls) assert.ok(at >= before - 1_000 && at <= Date.now() + 1_000);
    const [failed, invalid, ok] = await Promise.all(
      ["error", "invalid", "ok"].map((outcome) =>
        one("calculator", calls.find((each) => each.outcome === outcome)!.id),
      ),
    );
    assert.deepEqual([ok.arguments, ok.result.structuredContent], [{ a: 6, b: 3 }, 2]);
    assert.deepEqual(failed.arguments, { a: 1, b: 0 });
    assert.equal(failed.error.message, "cannot divide 1 by zero");
    assert.match(failed.error.stack, /calculator\.ts:4:\d+/);
    assert.match(failed.result.content[0].text, /cannot divide 1 by zero/);
    assert.deepEqual(invalid.arguments, { a: "six", b: 3 });
    assert.match(invalid.result.content[0].text, /Invalid arguments/);
    assert.match(ok.release, /^bagu/);
    assert.ok(ok.ms > 0 && ok.argumentsBytes > 10 && ok.requestId);
  });

  it("are none of a server whose entry does not ask for them, nor of another tenant's of that name", async () => {
    assert.deepEqual((await api.send("GET", "/servers/silent/calls")).body, { retainedMs: null, calls: [] });
    await use("calculator", "divide", { a: 1, b: 1 }, "/t/acme");
    const acme = apiOf({ url: `${berth.url}/t/acme` });
    assert.deepEqual((await acme.send("GET", "/servers/calculator/calls")).body, { retainedMs: null, calls: [] });
    const [mine] = await keptOf("calculator", 3);
    assert.equal((await acme.send("GET", `/servers/calculator/calls/${mine!.id}`)).status, 404);
    assert.equal((await api.send("GET", `/servers/teller/calls/${mine!.id}`)).status, 404);
    assert.equal((await api.send("GET", "/servers/nobody/calls")).status, 404);
  });

  it("are found by outcome, tool and time, page by page; any other query is refused", async () => {
    await use("calculator", "repeat", { text: "a", times: 2 });
    await keptOf("calculator", 4);
    assert.deepEqual(rows(await listOf("calculator", "?failed"), "outcome"), ["invalid", "error"]);
    assert.equal((await listOf("calculator", "?tool=repeat")).length, 1);
    assert.equal((await listOf("calculator", "?tool=repeat&failed=true")).length, 0);
    assert.equal((await listOf("calculator", "?before=1h")).length, 0);
    assert.equal((await listOf("calculator", "?since=1h&failed=false")).length, 4);
    const first = (await api.send("GET", "/servers/calculator/calls?limit=3")).body;
    const second = (await api.send("GET", `/servers/calculator/calls?limit=3&cursor=${first.next}`)).body;
    assert.deepEqual([first.calls.length, second.calls.length, second.next], [3, 1, undefined]);
    assert.equal(new Set([...first.calls, ...second.calls].map(({ id }: Kept) => id)).size, 4);
    for (const query of ["?failed=maybe", "?before=yesterday", "?cursor=YWZ0ZXI6eA", "?limit=0", "?tool=a&tool=b"])
      assert.equal((await api.send("GET", `/servers/calculator/calls${query}`)).status, 400, query);
    for (const id of ["0", "x", "1e3", "99999999999999999999", "-1"])
      assert.equal((await api.send("GET", `/servers/calculator/calls/${id}`)).status, 404, id);
  });

  it("do without arguments and results that are too long, and say how long they were", async () => {
    await use("calculator", "repeat", { text: "x", times: 3_000 });
    await use("calculator", "repeat", { text: "y".repeat(3_000), times: 1 });
    const calls = await keptOf("calculator", 3, "?tool=repeat");
    const [both, result] = [await one("calculator", calls[0]!.id), await one("calculator", calls[1]!.id)];
    assert.deepEqual([result.arguments, result.result], [{ text: "x", times: 3_000 }, undefined]);
    assert.ok(result.resultBytes >= 3_000);
    assert.deepEqual([both.arguments, both.result], [undefined, undefined]);
    assert.ok(both.argumentsBytes > 3_000);
  });

  it("tell no secret of their server, in whatever form its code or its caller says it", async () => {
    for (const how of ["plain", "base64", "hex", "url", "json", "thrown"]) await use("teller", "tell", { how });
    // The server has not read this one.
    await use("teller", "echo", { text: `it is ${UNREAD}` });
    await use("teller", "signIn", { user: "ann", password: "correct horse" });
    const calls = await keptOf("teller", 8);
    const bytes = Buffer.from(VALUE);
    const forms = [
      VALUE,
      JSON.stringify(VALUE).slice(1, -1),
      JSON.stringify(JSON.stringify(VALUE).slice(1, -1)).slice(1, -1),
      encodeURIComponent(VALUE),
      bytes.toString("base64"),
      bytes.toString("hex"),
      UNREAD,
      "correct horse",
    ];
    const texts = await Promise.all(calls.map(async ({ id }) => JSON.stringify(await one("teller", id))));
    const pages = await Promise.all(
      calls.map(async ({ id }) => (await fetch(`${berth.url}/mcp/meta/teller?tab=calls&call=${id}`)).text()),
    );
    const stored = await onStoreOf(berth, async (store) =>
      Promise.all(calls.map(async ({ id }) => (await store.retainedCalls.get("default", "teller", id))!.body)),
    );
    for (const text of [...texts, ...pages, ...stored]) for (const form of forms) assert.ok(!text.includes(form), text);
    for (const text of texts) assert.match(text, /\[hidden\]/);
    const signIn = await one("teller", calls.find(({ tool }) => tool === "signIn")!.id);
    assert.deepEqual(signIn.arguments, { user: "ann", password: "[hidden]" });
    assert.equal(signIn.error.message, "ann has not the password [hidden]");
  });

  it("are the latest of their server, and go when its entry asks for none", async () => {
    for (let n = 0; n < 25; n++) await use("calculator", "divide", { a: n, b: 1 });
    const latest = await until(async () => {
      const calls = await listOf("calculator");
      const isLast = calls.length === 20 && (await one("calculator", calls[0]!.id)).arguments.a === 24;
      return isLast ? calls : undefined;
    }, "the latest 20 are kept");
    const put = (more: object) =>
      api.put("/entries/calculator", JSON.stringify({ ...entry, ...more }), { "Berth-Allow-Breaking": "true" });
    const { files } = (await api.send("GET", "/entries/calculator")).body;
    const { retain_calls: _, ...entry } = JSON.parse(Object.values(files as Record<string, string>)[0]!);
    assert.equal((await put({})).status, 200);
    assert.deepEqual((await api.send("GET", "/servers/calculator/calls")).body, { retainedMs: null, calls: [] });
    assert.equal((await api.send("GET", `/servers/calculator/calls/${latest[0]!.id}`)).status, 404);
    await until(
      () =>
        onStoreOf(
          berth,
          async (store) => !(await store.retainedCalls.servers()).some(({ server }) => server === "calculator"),
        ),
      "they are removed",
    );
    assert.equal((await put({ retain_calls: "90d" })).status, 200);
    assert.deepEqual((await api.send("GET", "/servers/calculator/calls")).body, {
      retainedMs: 30 * 86_400_000,
      calls: [],
    });
    const { problems } = (await api.send("GET", "/servers")).body.servers.find(
      ({ name }: { name: string }) => name === "calculator",
    );
    assert.match(JSON.stringify(problems), /retained for at most 30 days \(BERTH_RETAINED_CALL_DAYS\)/);
    for (const retain_calls of ["7", "0d", "1w", "7 d", ""])
      assert.equal((await put({ retain_calls })).status, 422, retain_calls);
    await use("calculator", "divide", { a: 1, b: 1 });
    await keptOf("calculator", 1);
  });
});

describe("retained calls where a token is needed", () => {
  const berth = berthInSuite({
    texts: { "calculator.ts": CALCULATOR },
    mcps: { calculator: { definition: "calculator.ts", retain_calls: "7d" } },
    env: {
      BERTH_ACCESS: "required",
      BERTH_ADMIN_TOKEN: "the-operators-own-token",
      BERTH_RETAINED_CALL_DELAY_MS: "20",
    },
  });

  it("name who called, and are shown to those alone who may change the server", async () => {
    const caller = await makeToken(berth, { can: ["call", "read"] });
    const body = request("tools/call", { name: "divide", arguments: { a: 4711, b: 2 } });
    await post(`${berth.url}/mcp/calculator`, body, bearer(caller.token));
    const admin = { ...bearer("the-operators-own-token") };
    const at = `${berth.url}/api/servers/calculator/calls`;
    const kept = await until(async () => {
      const { calls } = (await (await fetch(at, { headers: admin })).json()) as { calls: Kept[] };
      return calls[0];
    }, "the call is kept");
    assert.equal(kept.principal, `token:${caller.id}`);
    const page = `${berth.url}/mcp/meta/calculator`;
    const places = [at, `${at}/${kept.id}`, `${page}?tab=calls&call=${kept.id}`, `${page}?tab=tools&call=${kept.id}`];
    const statuses = async (headers: Record<string, string>): Promise<number[]> =>
      Promise.all(
        places.map(async (place) => (await fetch(place, { headers: { Accept: "text/html, */*", ...headers } })).status),
      );
    const other = await makeToken(berth, { can: ["edit"], servers: ["elsewhere"] });
    const editor = await makeToken(berth, { can: ["edit", "call"], servers: ["calculator"] });
    assert.deepEqual(await statuses(bearer(caller.token)), [403, 403, 403, 403]);
    assert.deepEqual(await statuses(bearer(other.token)), [403, 403, 403, 403]);
    assert.deepEqual(await statuses(bearer(editor.token)), [200, 200, 200, 200]);
    assert.deepEqual(await statuses({}), [401, 401, 401, 401]);
    const tab = await (await fetch(`${page}?tab=calls`, { headers: bearer(caller.token) })).text();
    assert.doesNotMatch(tab, /call=\d/);
    assert.match(tab, /Recent calls/);
  });
});
