import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { recordsOf } from "../support/audit.ts";
import { call, makeImage } from "../support/berth.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { testFolders } from "../support/store.ts";
import { onStoreOf } from "../support/tenants.ts";

const PROCESSES = 3;

describe("processes that start at the same time", () => {
  const newFolder = testFolders("together");

  it("on an empty folder all serve, with one image and one key, and create nothing twice", async (t) => {
    const folder = newFolder();
    const env = await makeImage(folder, { texts: { "echo.ts": 'export const echo = (): string => "hello";\n' } });
    const starting = Array.from({ length: PROCESSES }, () => ServeProcess.start([], env));
    t.after(async () => {
      for (const { value } of (await Promise.allSettled(starting)) as PromiseFulfilledResult<ServeProcess>[])
        await value?.end("SIGTERM");
    });
    for (const { url } of await Promise.all(starting))
      assert.equal((await call(`${url}/mcp/echo`, "echo")).content[0].text, "hello");
    await onStoreOf({ folder }, async (store) => {
      for (const [kind, name] of [
        ["image", "applied"],
        ["variable", "mcps"],
        ["release", "echo"],
      ] as const) {
        assert.equal((await store.history("default", kind, name)).length, 1, `${kind} ${name}`);
      }
      assert.equal((await verifyLog(store.audit)).fault, undefined);
      const started = (await recordsOf(store.audit)).filter(({ action }) => action === "started");
      assert.equal(started.length, PROCESSES);
    });
    assert.deepEqual(
      readdirSync(join(folder, "data")).filter((file) => file.includes("seal")),
      ["seal.key"],
    );
  });
});
