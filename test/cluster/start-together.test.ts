import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { recordsOf } from "../support/audit.ts";
import { call, makeImage } from "../support/berth.ts";
import { ON_POSTGRES } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { testFolders } from "../support/store.ts";
import { onStoreOf } from "../support/tenants.ts";

const PROCESSES = 3;

const newFolder = testFolders("together");

it("processes that start at the same time on an empty folder all serve, with one image and one key, and create nothing twice", async (t) => {
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
  const sealKeys = readdirSync(join(folder, "data")).filter((file) => file.includes("seal"));
  assert.deepEqual(sealKeys, ["seal.key"]);
});

/** On a database, nodes of one machine are told apart from those of others by their lease alone. */
it(
  "after kill -9, berth serve removes the killed node of its data folder before it serves",
  { skip: process.platform !== "linux" || ON_POSTGRES },
  async () => {
    const image = await makeImage(newFolder(), { texts: {} });
    const env = { ...image, BERTH_LOG: "info", BERTH_NODE_LEASE_MS: "600000" };
    const killed = await ServeProcess.start([], env);
    await killed.end("SIGKILL");
    const again = await ServeProcess.start([], env);
    await again.end("SIGTERM");
    assert.match(again.startLog, /"msg":"a node has gone"/);
  },
);
