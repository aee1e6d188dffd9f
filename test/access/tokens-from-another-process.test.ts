import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { post, request, type Reply } from "../support/berth.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { bearer, makeToken, revoke } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const ADMIN = "the-operators-own-token";

describe("access of a service", () => {
  const folders: string[] = [];
  after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

  it("is open on this machine alone, unless it is required there, too", () => {
    assert.equal(readConfig({}).access, "open");
    assert.equal(readConfig({ BERTH_ACCESS: "required" }).access, "required");
    assert.equal(readConfig({ BERTH_HOST: "0.0.0.0" }).access, "required");
    assert.throws(() => readConfig({ BERTH_HOST: "0.0.0.0", BERTH_ACCESS: "open" }), /would let anybody in/);
    assert.throws(() => readConfig({ BERTH_ACCESS: "maybe" }), /BERTH_ACCESS must be open or required/);
  });

  it("another process makes and revokes tokens of a service that runs, which writes none of them anywhere", async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-access-"));
    folders.push(folder);
    const data = join(folder, "data");
    const berth = await ServeProcess.start(["--data", data, "--port", "0", "--host", "0.0.0.0"], {
      BERTH_LOG: "trace",
      BERTH_ADMIN_TOKEN: ADMIN,
    });
    let said = "";
    berth.child.stderr!.on("data", (chunk: string) => (said += chunk));
    const url = berth.url.replace("0.0.0.0", "127.0.0.1");
    const call = (token: string): Promise<Reply> =>
      post(`${url}/mcp/echo`, request("tools/call", { name: "echo", arguments: { message: "hi" } }), bearer(token));
    try {
      assert.equal((await post(`${url}/mcp/echo`, request("ping"))).status, 401);
      const { token, id } = await makeToken({ folder }, { can: ["call"] });
      assert.equal((await call(token)).status, 200);
      assert.equal((await call(ADMIN)).status, 200);
      const began = performance.now();
      await revoke({ folder }, id);
      await until(async () => (await call(token)).status === 401);
      const ms = performance.now() - began;
      // Sooner than the cached verdict would have expired.
      assert.ok(ms < 30_000, `it took ${ms} ms until a revoked token was refused`);
      assert.equal((await call(`${ADMIN}x`)).status, 401);
      await berth.end("SIGTERM");
      const written = await Promise.all(
        (await readdir(data)).map(async (file) => readFile(join(data, file), "latin1")),
      );
      for (const text of [said, ...written]) {
        assert.ok(!text.includes(token) && !text.includes(ADMIN), "a token stands where it can be read");
      }
    } finally {
      await berth.end("SIGKILL");
    }
  });
});
