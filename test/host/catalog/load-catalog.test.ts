import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadCatalog } from "../../../src/host/catalog/load-catalog.ts";
import { createSummarize } from "../../../src/host/catalog/overview.ts";
import { rawBlock } from "../../../src/lib/cid.ts";

describe("a server that fails in a way that nobody foresaw", () => {
  const errors: object[] = [];
  const log = { error: (about: object) => errors.push(about) };
  const listed = { entry: { raw: {} }, enabled: true, hidden: [], problems: [], refused: false } as never;

  it("is refused alone, and the log has the reason", async () => {
    const content = (): never => assert.fail("nobody foresaw this");
    const failing = {
      log,
      store: { content },
      executor: { isolation: "sandboxed" },
      checks: {},
      writable: true,
    } as never;
    const code = { ...(listed as object), definition: rawBlock("").cid } as never;
    await assert.rejects(loadCatalog("default", "s", code, {} as never, failing), { code: "server_refused" });
    assert.equal(errors.length, 1);
  });

  it("is told of as refused in lists", async () => {
    const look = (): never => {
      throw new TypeError("nobody foresaw this");
    };
    const summarize = createSummarize({ log } as never, { peek: () => undefined }, look);
    const { state, problems } = await summarize("default", "s", listed);
    assert.deepEqual([state, problems[0]?.code], ["refused", "unforeseen"]);
  });
});
