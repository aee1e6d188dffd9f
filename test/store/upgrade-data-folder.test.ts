import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { packageRoot } from "../../src/config.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { apiOf, type Api } from "../support/api.ts";
import { recordsOf } from "../support/audit.ts";
import { post, request } from "../support/berth.ts";
import { cli } from "../support/commands.ts";
import { patientEnv } from "../support/patience.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";
import { fixtures as upstreams } from "../support/upstreams.ts";

interface Facts {
  /** The heads of the audit log, at the end and when the backup was made. */
  readonly head: string;
  readonly backupHead: string;
  readonly token: string;
  readonly pinned: { readonly first: string; readonly second: string };
  readonly greet: { readonly first: string; readonly second: string };
  readonly pending: string;
}

/** The fixture's records become older than the default limits. */
const FOR_EVER = { BERTH_AUDIT_DAYS: "0", BERTH_AUDIT_CALL_DAYS: "0" };
const COUNTER = `import type { ToolContext } from "berth";
export const count = ({ state }: ToolContext): Promise<number> => state.update<number>("n", (n = 0) => n + 1);
`;
const KEYS = ["seal.key", "secret.key"];
const folders: string[] = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** See the README.md there: an earlier Berth made each, with an edit, an approval, a secret, a tenant and a token. */
for (const [version, name] of [
  [11, "data-folder"],
  [12, "data-folder-12"],
  [14, "data-folder-14"],
  [16, "data-folder-16"],
] as const) {
  const fixture = join(packageRoot, "test", "fixtures", name);
  const facts = JSON.parse(readFileSync(join(fixture, "facts.json"), "utf8")) as Facts;

  describe(`what a Berth of schema ${version} has left`, () => {
    it("C8 is served from its data folder, as a kill left it", async (t) => {
      const { folder, data } = newFolder(fixture);
      for (const file of readdirSync(join(fixture, "data"))) unpack(join(fixture, "data", file), join(data, file));
      await answersAsThen(t, folder, { fixture, facts, head: facts.head, motto: "after the backup\n" });
    });

    it("C8 is served from its backup and its keys, restored into a new folder", async (t) => {
      const { folder, data } = newFolder(fixture);
      const backup = join(folder, "backup.sqlite");
      unpack(join(fixture, "backup.sqlite.gz"), backup);
      for (const key of KEYS) unpack(join(fixture, "data", `${key}.gz`), join(data, key));
      await berth(["restore", backup, "--data", data]);
      await answersAsThen(t, folder, { fixture, facts, head: facts.backupHead, motto: undefined });
    });
  });
}

/** `motto` is a variable that was set after the backup. */
async function answersAsThen(
  t: TestContext,
  folder: string,
  { fixture, facts, head, motto }: { fixture: string; facts: Facts; head: string; motto: string | undefined },
): Promise<void> {
  const data = join(folder, "data");
  // An upstream's paths are relative to Berth's working folder.
  const served = await ServeProcess.start(
    ["--port", "0", "--data", data, "--image", join(fixture, "image")],
    { ...patientEnv, ...FOR_EVER, BERTH_UPSTREAM_PROGRAMS: "on", BERTH_AUDIT: "all" },
    {},
    folder,
  );
  t.after(() => served.end("SIGKILL"));
  const api = apiOf(served);
  const call = async (server: string, tool: string, args = {}, { token = "", tenant = "" } = {}): Promise<unknown> => {
    const { body } = await post(
      `${served.url}${tenant && `/t/${tenant}`}/mcp/${server}`,
      request("tools/call", { name: tool, arguments: args }),
      { "MCP-Protocol-Version": "2025-06-18", ...(token && { Authorization: `Bearer ${token}` }) },
    );
    return body.result?.content[0].text ?? body.error.message;
  };

  const { pinned, greet, token } = facts;
  assert.equal(await call("pinned", "which"), "second");
  assert.equal(await call(`pinned@${pinned.second}`, "more"), "2");
  assert.equal(await call(`pinned@${pinned.first}`, "which"), "first");
  assert.match(String(await call(`pinned@${pinned.first}`, "more")), /more/);
  const { releases } = (await api.send("GET", "/servers/pinned/releases")).body;
  assert.deepEqual(
    (releases as { release: string }[]).slice(-2).map(({ release }) => release),
    [pinned.second, pinned.first],
  );
  assert.equal(await call("greet", "greet", { name: "Ann" }), "Good day Ann", "a person has edited it");
  assert.equal(await call(`greet@${greet.first}`, "greet", { name: "Ann" }), "Hello Ann");
  assert.equal(await call("hello", "whose", {}, { tenant: "acme" }), "of acme");
  assert.equal(await call("keeper", "secret"), "kept since then");

  assert.equal(await call("pinned", "which", {}, { token }), "second");
  assert.match(String(await call("greet", "greet", { name: "Ann" }, { token })), /token does not permit/);
  const unknown = `${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}`;
  assert.doesNotMatch(String(await call("pinned", "which", {}, { token: unknown })), /second/);

  assert.equal(await call("other", "aside"), "called Stands aside, as approved.");
  assert.match(String(await call("other", "hello", { name: "x" })), /until a person approves/);
  const { pending } = (await api.send("GET", "/servers/other/upstream")).body;
  // All that upstreams list is kept now, so its contract has another CID. The one of then approves the same.
  assert.ok((pending.changes as object[]).length > 0);
  const approved = await api.send("POST", "/servers/other/approve", { contract: facts.pending });
  assert.equal(approved.status, 200);
  assert.equal(await call("other", "hello", { name: "x", files: "y" }), "called Says hello, and sends all files.");

  const found = await api.send("GET", "/variables/motto");
  assert.deepEqual(found.status === 200 ? Object.values(found.body.files as object) : [], motto ? [motto] : []);
  assert.equal((await api.put("/variables/motto", "of today\n")).status, motto ? 200 : 201);
  assert.equal((await api.put("/definitions/counter", COUNTER)).status, 201);
  assert.deepEqual([await call("counter", "count"), await call("counter", "count")], ["1", "2"], "it keeps state");
  const keeping = await api.send("GET", "/servers/counter/calls");
  assert.deepEqual([keeping.status, keeping.body], [200, { keptMs: null, calls: [] }]);
  await keepsCalls(api, () => call("counter", "count"));
  await served.end("SIGTERM");

  await berth(["audit", "verify", "--head", head, "--data", data]);
  const store = await openSqliteStore({ dataDir: data });
  t.after(() => store.close());
  const [acme] = await store.tenants.list();
  assert.deepEqual([acme!.name, acme!.limits], ["acme", { calls: 8 }]);
  const calls = await recordsOf(store.audit, { tenant: "default", kind: "call" });
  const byToken = calls.filter(
    ({ server, principal }) => server === "pinned" && typeof principal === "string" && principal.startsWith("token:"),
  );
  assert.equal(byToken.length, 2, "one then, and one now");
}

/** A table of a later version is used in the data of this one. */
async function keepsCalls(api: Api, call: () => Promise<unknown>): Promise<void> {
  const entry = await api.send("GET", "/entries/counter");
  const text = entry.status === 200 ? Object.values(entry.body.files as Record<string, string>)[0]! : "{}";
  const saved = await api.put(
    "/entries/counter",
    JSON.stringify({ ...(JSON.parse(text) as object), keep_calls: "7d" }),
  );
  assert.ok(saved.status < 300, JSON.stringify(saved.body));
  assert.equal(await call(), "3");
  await until(async () => {
    const { calls } = (await api.send("GET", "/servers/counter/calls")).body;
    return (calls as object[]).length === 1;
  }, "the call is kept");
}

async function berth(args: readonly string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [cli, ...args], { env: { ...process.env, ...FOR_EVER } });
}

/** A working folder for Berth, with the upstream's original script and an empty data folder. */
function newFolder(fixture: string): { folder: string; data: string } {
  const folder = mkdtempSync(join(tmpdir(), "berth-left-"));
  folders.push(folder);
  const [data, upstream] = [join(folder, "data"), join(folder, "upstream")];
  mkdirSync(data, { mode: 0o700 });
  mkdirSync(upstream);
  cpSync(join(upstreams, "changing.mjs"), join(upstream, "changing.mjs"));
  cpSync(join(fixture, "tools.json"), join(upstream, "tools.json"));
  return { folder, data };
}

function unpack(from: string, to: string): void {
  writeFileSync(to.replace(/\.gz$/, ""), gunzipSync(readFileSync(from)), { mode: 0o600 });
}
