import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { makeImage } from "../support/berth.ts";
import { ON_POSTGRES } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { testFolders } from "../support/store.ts";

const newFolder = testFolders("restart");

/** On a database, nodes of one machine are told apart from those of others by their lease alone. */
describe("berth serve after kill -9", { skip: process.platform !== "linux" || ON_POSTGRES }, () => {
  it("removes the killed node of its data folder before it serves", async () => {
    const image = await makeImage(newFolder(), { texts: {} });
    const env = { ...image, BERTH_LOG: "info", BERTH_NODE_LEASE_MS: "600000" };
    const killed = await ServeProcess.start([], env);
    await killed.end("SIGKILL");
    const again = await ServeProcess.start([], env);
    await again.end("SIGTERM");
    assert.match(again.startLog, /"msg":"a node has gone"/);
  });
});
