import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { gunzipSync } from "node:zlib";
import { packageRoot } from "../../../src/config.ts";
import { apiOf, type Api } from "../../support/api.ts";
import { post, request } from "../../support/berth.ts";
import { berth as run } from "../../support/commands.ts";
import { patientEnv } from "../../support/patience.ts";
import { ServeProcess } from "../../support/serve-process.ts";
import { until } from "../../support/until.ts";

const fixture = join(packageRoot, "test", "fixtures", "data-folder-stripped");
const facts = JSON.parse(readFileSync(join(fixture, "facts.json"), "utf8")) as {
  readonly head: string;
  readonly release: string;
  readonly earlier: string;
  readonly contract: string;
  readonly tools: readonly ListedTool[];
};
const FOR_EVER = { BERTH_AUDIT_DAYS: "0", BERTH_AUDIT_CALL_DAYS: "0" };
const folders: string[] = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

interface ListedTool {
  readonly name: string;
  readonly icons?: unknown;
  readonly _meta?: Record<string, unknown>;
}

/** See the fixture's README.md: the last Berth that left out what it did not know left it. */
describe("an upstream that was approved when Berth left out what it did not know", () => {
  for (const from of ["its data folder, as a kill left it", "its backup"] as const) {
    it(`is served from ${from} as it was then: nothing is held back, and nothing more is passed on`, async (t) => {
      const { api, list, call } = await served(t, from);
      assert.deepEqual(await list("all"), facts.tools);
      assert.equal(await call("all", "plain"), "plain");
      // It has been started, and has shown all that it offers.
      assert.deepEqual(await list("all"), facts.tools);
      assert.deepEqual(await list(`all@${facts.release}`), facts.tools);
      assert.equal(await call(`all@${facts.earlier}`, "plain"), "plain");

      const { servers } = (await api.send("GET", "/servers")).body;
      const { problems } = (servers as { name: string; problems: { code: string; severity: string }[] }[]).find(
        ({ name }) => name === "all",
      )!;
      assert.deepEqual(
        problems.filter(({ code }) => code === "contract-changed"),
        [],
      );
      assert.ok(problems.some(({ code, severity }) => code === "first-seen" && severity === "warning"));
      const { pending } = (await api.send("GET", "/servers/all/upstream")).body;
      const changes = pending.changes as { effect: string; message: string }[];
      assert.ok(changes.some(({ message }) => /_meta is new.*first seen, not reviewed/.test(message)));
      assert.ok(changes.every(({ effect }) => effect !== "breaking"));
    });
  }

  it("passes on the rest once a person approves it, and then holds back a change of it", async (t) => {
    const { api, list, call, folder } = await served(t, "its data folder, as a kill left it");
    assert.equal(await call("all", "plain"), "plain");
    const { pending } = (await api.send("GET", "/servers/all/upstream")).body;
    assert.equal((await api.send("POST", "/servers/all/approve", { contract: pending.contract })).status, 200);
    const [plain] = await list("all");
    assert.ok(Array.isArray(plain!.icons));
    assert.deepEqual(plain!._meta!["ui"], { resourceUri: "ui://all/app.html", visibility: ["model", "app"] });
    assert.equal(await call("all", "plain"), "plain");
    assert.equal(await call(`all@${facts.release}`, "plain"), "plain", "what was pinned then is as it was");
    assert.deepEqual(await list(`all@${facts.release}`), facts.tools);

    const script = join(folder, "upstream", "says-all.mjs");
    const changed = readFileSync(script, "utf8").replace('app.html", visibility', 'other.html", visibility');
    writeFileSync(script, changed);
    await until(async () => {
      // It ends when nobody has used it for a moment.
      const { state } = (await api.send("GET", "/servers/all/upstream")).body;
      return state !== "running";
    }, "the upstream rests");
    assert.match(String(await call("all", "plain")), /until a person approves/);
  });
});

async function served(
  t: TestContext,
  from: "its data folder, as a kill left it" | "its backup",
): Promise<{
  readonly api: Api;
  readonly folder: string;
  readonly list: (server: string) => Promise<readonly ListedTool[]>;
  readonly call: (server: string, tool: string) => Promise<unknown>;
}> {
  const folder = mkdtempSync(join(tmpdir(), "berth-stripped-"));
  folders.push(folder);
  const data = join(folder, "data");
  mkdirSync(data, { mode: 0o700 });
  mkdirSync(join(folder, "upstream"));
  cpSync(join(fixture, "says-all.mjs"), join(folder, "upstream", "says-all.mjs"));
  const unpack = (name: string, to: string): void =>
    writeFileSync(to, gunzipSync(readFileSync(join(fixture, name))), { mode: 0o600 });
  if (from === "its backup") {
    unpack("backup.sqlite.gz", join(folder, "backup.sqlite"));
    unpack("data/seal.key.gz", join(data, "seal.key"));
    await run(["restore", join(folder, "backup.sqlite"), "--data", data]);
  } else {
    for (const file of readdirSync(join(fixture, "data"))) {
      unpack(join("data", file), join(data, file.replace(/\.gz$/, "")));
    }
  }
  const berth = await ServeProcess.start(
    ["--port", "0", "--data", data, "--image", join(fixture, "image")],
    { ...patientEnv, ...FOR_EVER, BERTH_UPSTREAM_PROGRAMS: "on", BERTH_UPSTREAM_IDLE_MS: "500" },
    {},
    folder,
  );
  t.after(() => berth.end("SIGKILL"));
  const say = async (server: string, method: string, params: object): ReturnType<typeof post> =>
    post(`${berth.url}/mcp/${server}`, request(method, params), { "MCP-Protocol-Version": "2025-06-18" });
  return {
    api: apiOf(berth),
    folder,
    list: async (server) => (await say(server, "tools/list", {})).body.result.tools,
    async call(server, tool) {
      const { result, error } = (await say(server, "tools/call", { name: tool, arguments: {} })).body;
      return result?.content[0].text ?? error.message;
    },
  };
}
