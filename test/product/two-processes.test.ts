import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { startBerth } from "../../src/compose/main.ts";
import { readConfig } from "../../src/config.ts";
import { createLog } from "../../src/lib/log.ts";
import { call, post, request } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { StdioSession } from "../support/stdio-session.ts";
import { berthFor, closeAfter } from "../support/suite.ts";

/** Both compile definitions that neither knows. */
const SLOW_MACHINE = { BERTH_COMPILE_MS: "60000" };

test("clients of another process and of berth stdio are notified of a tool that one process hides or shows (T4.5)", async (t) => {
  const first = await berthFor(t, { files: ["test/fixtures/servers/whole.ts"], env: SLOW_MACHINE });
  const [data, image] = [join(first.folder, "data"), join(first.folder, "boot")];
  const own = { BERTH_PORT: "0", BERTH_DATA: data, BERTH_IMAGE_DIR: image, BERTH_LOG: "silent" };
  const second = closeAfter(t, await startBerth(readConfig({ ...SLOW_MACHINE, ...own }), createLog("silent")));
  const clients = await Promise.all(["whole", ""].map((server) => LegacyClient.start(`${second.url}/mcp/${server}`)));
  const readers = await Promise.all(clients.map((client) => client.listen()));
  t.after(() => readers.forEach((reader) => reader.close()));
  const stdio = new StdioSession(["whole", "--data", data, "--image", image]);
  t.after(() => stdio.end());
  const tools = async (server: string): Promise<string[]> => {
    const { body } = await post(`${second.url}/mcp${server}`, request("tools/list"));
    return (body.result.tools as { name: string }[]).map(({ name }) => name);
  };
  await stdio.initialize();
  for (const open of [false, true]) {
    stdio.said.length = 0;
    await call(`${first.url}/mcp/whole`, "door", { open });
    for (const reader of readers) {
      assert.equal((await reader.nextMessage()).method, "notifications/tools/list_changed");
    }
    await stdio.until(({ method }) => method === "notifications/tools/list_changed");
    assert.equal((await tools("/whole")).includes("treasure"), open);
    assert.equal((await tools("")).includes("whole.treasure"), open);
  }
});
