import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readSealKey } from "../../../src/compose/keys.ts";
import { startBerth } from "../../../src/compose/main.ts";
import { readConfig } from "../../../src/config.ts";
import { createLog } from "../../../src/lib/log.ts";
import { startTestBerth } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";

describe("legacy sessions of a real Berth", () => {
  it("S7 a session goes on after a restart on the same data, and is 404 on other data", async (t) => {
    const berth = await startTestBerth({ files: ["test/fixtures/servers/everyday.ts"] });
    const env = (data: string) => ({
      BERTH_PORT: "0",
      BERTH_DATA: join(berth.folder, data),
      BERTH_IMAGE_DIR: join(berth.folder, "boot"),
      BERTH_LOG: "silent",
    });
    t.after(() => berth.close());
    const client = await LegacyClient.start(`${berth.url}/mcp/everyday`);
    for (const data of ["data", "other"]) {
      const config = readConfig(env(data));
      const next = await startBerth(config, createLog("silent"));
      try {
        const back = new LegacyClient(`${next.url}/mcp/everyday`, "2025-11-25");
        back.session = client.session;
        const reader = await back.call("echo", { message: "hi" });
        assert.equal(reader.status, data === "data" ? 200 : 404);
      } finally {
        await next.close();
      }
    }
  });

  it("the key of a data folder is made once, kept for its owner alone, and the same for all who come", async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "berth-key-"));
    t.after(() => rm(folder, { recursive: true }));
    const data = join(folder, "data");
    const keys = await Promise.all(Array.from({ length: 8 }, () => readSealKey(data)));
    assert.equal(new Set(keys.map((key) => Buffer.from(key).toString("hex"))).size, 1);
    assert.equal(keys[0]?.length, 32);
    assert.equal((await stat(join(data, "seal.key"))).mode & 0o777, 0o600);
    assert.deepEqual(await readFile(join(data, "seal.key")), keys[0]);
    await writeFile(join(data, "seal.key"), "short");
    await assert.rejects(readSealKey(data), /does not hold 32 bytes; delete it/);
  });
});
