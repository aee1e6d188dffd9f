import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, it } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { recordsOf } from "../support/audit.ts";
import { makeImage, post, request } from "../support/berth.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { onStoreOf } from "../support/tenants.ts";

const PROCESSES = 5;

describe("five processes that start at the same time", () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  function newFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), "berth-together-"));
    closers.push(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  }

  async function startAll(env: Record<string, string>): Promise<readonly ServeProcess[]> {
    const starts = Array.from({ length: PROCESSES }, () => ServeProcess.start([], env));
    const started = await Promise.allSettled(starts);
    closers.push(() =>
      Promise.all(started.map(async (each) => each.status === "fulfilled" && each.value.end("SIGTERM"))),
    );
    return started.map((each) => {
      if (each.status === "rejected") throw each.reason;
      return each.value;
    });
  }

  async function say(url: string, server: string, name: string): Promise<string> {
    const { body } = await post(`${url}/mcp/${server}`, request("tools/call", { name, arguments: {} }));
    return body.result?.content[0].text ?? body.error.message;
  }

  it("on an empty folder all serve, with one image and one key, and nothing is there twice", async () => {
    const folder = newFolder();
    const env = await makeImage(folder, { texts: { "echo.ts": 'export const echo = (): string => "hello";\n' } });
    const berths = await startAll(env);
    for (const { url } of berths) assert.equal(await say(url, "echo", "echo"), "hello");
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
