import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { auditEntry } from "../../src/audit/audit-entry.ts";
import { verifyLog } from "../../src/audit/verify.ts";
import { addAnchor, isRetentionDue, newestLinks, retain } from "../../src/store/audit.ts";
import { appendAllAudit } from "../../src/store/sqlite/audit.ts";
import { sqliteDialect } from "../../src/store/sqlite/dialect.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { runSteps } from "../../src/store/sqlite/steps.ts";
import { apiOf, type ApiReply } from "../support/api.ts";
import { recordsOf } from "../support/audit.ts";
import { NODES, post, request, withStatus } from "../support/berth.ts";
import { berth as command } from "../support/commands.ts";
import { gathered } from "../support/gathered.ts";
import { rows } from "../support/rows.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { berthFor, berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const NOTES = `/** Says it louder. */
export const shout = (text: string): string => text.toUpperCase();
`;
const LOUDER = NOTES.replace("toUpperCase()", 'toUpperCase() + "!"');

describe("the audit log of a service", () => {
  const berth = berthInSuite({
    texts: { "notes.ts": NOTES },
    env: { BERTH_ACCESS: "required", BERTH_AUDIT_DELAY_MS: "5", BERTH_AUDIT_REFUSALS_PER_MINUTE: "3" },
  });
  const none = { token: "", id: "" };
  let [admin, theirs, caller] = [none, none, none];
  before(async () => {
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { theirs: NOTES } }));
    admin = await makeToken(berth, { can: ["admin"] });
    theirs = await makeToken(berth, { can: ["admin"] }, { tenant: "acme" });
    caller = await makeToken(berth, { can: ["call", "edit"] });
  });

  const read = (query = "", { at = "", token = admin.token } = {}): Promise<ApiReply> =>
    apiOf({ url: berth.url + at }).send("GET", `/audit${query}`, undefined, bearer(token));
  const shout = (text: unknown, { at = "/mcp/notes", token = caller.token, id = "" } = {}): Promise<unknown> =>
    post(berth.url + at, request("tools/call", { name: "shout", arguments: { text } }), {
      ...bearer(token),
      "MCP-Protocol-Version": "2025-06-18",
      ...(id !== "" && { "X-Request-Id": id }),
    });
  const found = async (query: string, count: number): Promise<Record<string, unknown>[]> => {
    await until(async () => (await read(query)).body.records.length >= count);
    return (await read(query)).body.records;
  };

  it("tells who called what, how it ended, and by which request", async () => {
    await shout("hello", { id: "call-1" });
    await shout(7, { id: "call-2" });
    const records = await found("?kind=call&server=notes", 2);
    for (const { release } of records) assert.match(String(release), /^bagu/);
    const by = `token:${caller.id}`;
    const told = [`shout ${by} invalid call-2`, `shout ${by} ok call-1`];
    assert.deepEqual(rows(records, "tool", "principal", "outcome", "requestId"), told);
    assert.equal((await read("?kind=call&outcome=ok&tool=shout&since=1h")).body.records.length, 1);
    assert.equal((await read("?kind=call&until=1h")).body.records.length, 0);
  });

  it("tells of edits by whom and of what, and of none that was refused", async () => {
    const api = apiOf(berth);
    const as = bearer(caller.token);
    await withStatus(200, api.send("PUT", "/definitions/notes", LOUDER, { ...as, "If-Match": "*" }));
    await withStatus(422, api.send("PUT", "/definitions/notes", "nonsense(", { ...as, "If-Match": "*" }));
    const [edit, ...others] = await found("?kind=edit&principal=token:" + caller.id, 1);
    assert.deepEqual(others, []);
    assert.deepEqual(edit!["subject"], { kind: "definition", name: "notes" });
    assert.equal(edit!["by"], "api");
    assert.ok((edit!["names"] as { to: string }[]).length > 0);
    const server = (await found("?kind=edit&server=notes&principal=token:" + caller.id, 1))[0];
    assert.deepEqual(server, edit);
  });

  it("tells who signed in and who was refused, of many how many, and never a token", async () => {
    const signIn = (token: string): Promise<Response> =>
      fetch(`${berth.url}/sign-in`, {
        method: "POST",
        headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: berth.url },
        body: new URLSearchParams({ token }).toString(),
        redirect: "manual",
      });
    assert.equal((await signIn(caller.token)).status, 303);
    const wrong = caller.token.replace(/.$/, (last) => (last === "x" ? "y" : "x"));
    assert.equal((await signIn(wrong)).status, 401);
    for (let attempt = 0; attempt < 5; attempt++) await shout("x", { token: wrong });
    const [ok] = await found("?kind=login&outcome=ok", 1);
    assert.deepEqual([ok!["principal"], typeof ok!["from"]], [`token:${caller.id}`, "string"]);
    // Each node records as many, here of six in turn.
    const refused = await found("?kind=login&outcome=refused", 3 * NODES);
    const calls = Array.from({ length: 3 * NODES - 1 }, () => "unauthorized /mcp/notes");
    assert.deepEqual(rows(refused, "code", "path").sort(), [...calls, "unauthorized /sign-in"]);
    const text = JSON.stringify(await onStoreOf(berth, async (store) => await gathered(store.audit.all())));
    for (const token of [caller.token, wrong, admin.token, theirs.token]) assert.ok(!text.includes(token));
  });

  it("tells who wanted what their token does not permit", async () => {
    const { token, id } = await makeToken(berth, { can: ["call"], servers: ["other"] }, { tenant: "acme" });
    await shout("x", { at: "/t/acme/mcp/theirs", token });
    await fetch(`${berth.url}/t/acme/variables`, { headers: bearer(token) });
    const query = "?kind=login&outcome=refused&principal=token:" + id;
    await until(async () => (await read(query, { at: "/t/acme", token: theirs.token })).body.records.length === 2);
    const { body } = await read(query, { at: "/t/acme", token: theirs.token });
    assert.deepEqual(rows(body.records, "code", "path"), ["forbidden /variables", "forbidden /mcp/theirs"]);
  });

  it("shows a tenant its own records alone, and only to who administers it (C8)", async () => {
    await shout("theirs", { at: "/t/acme/mcp/theirs", token: theirs.token });
    await until(async () => {
      const { body } = await read("?kind=call", { at: "/t/acme", token: theirs.token });
      return body.records.length === 1;
    });
    const own = await read("?limit=1000", { at: "/t/acme", token: theirs.token });
    assert.deepEqual(new Set(rows(own.body.records, "tenant")), new Set(["acme"]));
    const all = await read("?limit=1000");
    assert.deepEqual(new Set(rows(all.body.records, "tenant")), new Set(["default"]));
    for (const { body } of [own, all]) assert.ok(!/"(?:number|through|hash)"/.test(JSON.stringify(body)));
    assert.equal((await read("", { token: theirs.token })).status, 401);
    assert.equal((await read("", { at: "/t/acme", token: admin.token })).status, 401);
    const denied = await read("", { token: caller.token });
    assert.deepEqual([denied.status, denied.body.error.data.needs], [403, "admin"]);
    for (const path of ["/audit", "/t/acme/audit"]) {
      const page = await fetch(berth.url + path, { headers: { ...bearer(caller.token), Accept: "text/html" } });
      assert.equal(page.status, path === "/audit" ? 403 : 401);
    }
    const { next } = (await read("?limit=1")).body;
    assert.equal((await read(`?limit=1&cursor=${next}`, { at: "/t/acme", token: theirs.token })).status, 400);
  });

  it("names every mistake in a search at once", async () => {
    const { status, body } = await read("?kind=nothing&since=yesterday&limit=0&outcome=maybe");
    assert.equal(status, 400);
    for (const word of [
      "kind must be one of call, edit",
      "since must be a time such as",
      "limit must be a",
      "outcome must be one of",
    ]) {
      assert.ok(body.error.message.includes(word), body.error.message);
    }
    assert.equal((await read("?kind=&server=&since=&limit=")).status, 200, "as a form sends it");
  });

  it("keeps what a deleted tenant did, and shows none of it to the next of that name (C8)", async () => {
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "gone", { variables: { motto: "first" } });
      await store.tenants.delete("gone", "test");
      const deletedAt = store.now();
      await until(() => store.now() > deletedAt + 1);
      await addTenant(store, "gone", { variables: { motto: "second" } });
      const records = await recordsOf(store.audit, { tenant: "gone" });
      assert.deepEqual(rows(records, "action"), ["created", "-", "deleted", "created", "-"]);
    });
    const { token } = await makeToken(berth, { can: ["admin"] }, { tenant: "gone" });
    const { body } = await read("", { at: "/t/gone", token });
    assert.deepEqual(rows(body.records, "kind", "action"), ["token created", "edit -", "tenant created"]);
  });

  it("berth audit searches the whole log", async () => {
    const data = ["--data", join(berth.folder, "data")];
    const run = (...args: string[]) => command(["audit", ...args, ...data]);
    await found("?kind=call", 2);
    const { records } = await run("--tenant", "acme", "--kind", "call");
    assert.deepEqual(rows(records, "tenant", "server", "tool"), ["acme theirs shout"]);
    const text = await run("--kind", "service", "--format", "text", "--limit", "1");
    assert.match(text.stdout, /^\S+Z - +service +action=started process=\d+ /);
    assert.match((await run("--since", "soon")).stderr, /since must be a time such as/);
  });
});

it("the audit log of a Berth on an open loopback has no calls unless it is told so, and all else; BERTH_AUDIT=all has them, and an end writes them", async (t) => {
  const berth = await berthFor(t, { texts: { "notes.ts": NOTES } });
  const shout = request("tools/call", { name: "shout", arguments: { text: "x" } });
  await post(`${berth.url}/mcp/notes`, shout);
  await apiOf(berth).put("/variables/motto", "x");
  const { body } = await apiOf(berth).send("GET", "/audit");
  assert.deepEqual(new Set(rows(body.records, "kind")), new Set(["edit"]));

  const data = join(berth.folder, "data");
  const args = ["--port", "0", "--data", data, "--image", join(berth.folder, "boot")];
  const env = { BERTH_AUDIT: "all", BERTH_AUDIT_DELAY_MS: "60000" };
  const second = await ServeProcess.start(args, env);
  await post(`${second.url}/mcp/notes`, shout);
  await second.end("SIGTERM");
  // It is killed, and what it leaves goes with the folder.
  const third = await ServeProcess.start(args, { ...env, TMPDIR: berth.folder });
  await post(`${third.url}/mcp/notes`, shout);
  await withStatus(200, apiOf(third).put("/variables/motto", "y"));
  await third.end("SIGKILL");

  const store = await openSqliteStore({ dataDir: data });
  const records = await recordsOf(store.audit);
  assert.equal(records.filter(({ kind }) => kind === "call").length, 1, "what waited when it was killed is lost");
  const edits = records.filter(({ subject }) => JSON.stringify(subject)?.includes("motto"));
  assert.equal(edits.length, 2, "and no edit is");
  const lives = rows(
    records.filter(({ kind }) => kind === "service"),
    "action",
  );
  const ofTest = Array.from({ length: NODES }, () => "started");
  assert.deepEqual(lives, [...ofTest, "started", "stopped", "started"], "which the log shows");
  assert.equal((await verifyLog(store.audit)).fault, undefined, "two processes, the same chains");
  await store.close();
});

it("the audit log in the database is searched by tenant, kind, both or neither without walking past other records", () => {
  const database = new Database(":memory:");
  for (const step of migrations) database.exec(step);
  const asked: string[] = [];
  const prepare = database.prepare.bind(database) as (sql: string) => Database.Statement;
  database.prepare = ((sql: string) => {
    asked.push(sql);
    return prepare(sql);
  }) as typeof database.prepare;
  for (const tenant of [undefined, "acme"])
    for (const kind of [undefined, "edit"] as const)
      runSteps(database, newestLinks(sqliteDialect, { tenant, kind, max: 1 }));
  const keep = { auditDays: 2, auditCallDays: 1, auditBytesPerTenant: 1, auditCallBytesPerTenant: 1 };
  appendAllAudit(database, [
    auditEntry("acme", "edit", {}),
    auditEntry("acme", "edit", {}),
    auditEntry("acme", "call", {}),
  ]);
  runSteps(database, addAnchor(sqliteDialect, true));
  database.exec("UPDATE audit SET at = at - 3 * 86400000 WHERE arrival = 1");
  assert.ok(runSteps(database, isRetentionDue(sqliteDialect, keep)));
  while (runSteps(database, retain(sqliteDialect, keep)));

  const plans = asked.map((sql) => {
    const values = Object.fromEntries([...sql.matchAll(/\$(\d+)/g)].map(([, name]) => [name!, 0]));
    const steps = prepare(`EXPLAIN QUERY PLAN ${sql}`).all(values);
    return { sql, plan: steps.map((step) => (step as { detail: string }).detail).join("; ") };
  });
  const newest = plans.filter(({ sql }) => sql.includes("LIMIT $5"));
  assert.deepEqual(rows(newest, "plan"), [
    "SEARCH audit USING INDEX audit_by_time (at>? AND at<?)",
    "SEARCH audit USING INDEX audit_of_all_by_kind (kind=? AND at>? AND at<?)",
    "SEARCH audit USING INDEX audit_by_tenant (tenant=? AND at>? AND at<?)",
    "SEARCH audit USING INDEX audit_by_kind (tenant=? AND kind=? AND at>? AND at<?)",
  ]);
  // All statements that search the log, including the steps of retention.
  const seeking = plans.filter(({ sql }) => /FROM audit\s[^]*WHERE|UPDATE audit\s/.test(sql));
  assert.ok(seeking.length > 8, `${seeking.length}`);
  for (const { plan } of seeking) assert.doesNotMatch(plan, /SCAN audit\b(?!_)/);
  const bodies = seeking.filter(({ sql }) => sql.includes("(kind = 'call') ="));
  assert.ok(bodies.length >= 2);
  for (const { plan } of bodies) assert.match(plan, /USING INDEX audit_kept/);
  database.close();
});
