import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startBerth, type Berth } from "../../src/compose/main.ts";
import { readConfig } from "../../src/config.ts";
import { createLog } from "../../src/lib/log.ts";
import { call, post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { StdioSession } from "../support/stdio-session.ts";

/** Both compile definitions that neither knows. */
const SLOW_MACHINE = { BERTH_COMPILE_MS: "60000" };

describe("two Berths on one data folder", () => {
  let first: TestBerth;
  let second: Berth;
  before(async () => {
    first = await startTestBerth({ files: ["test/fixtures/servers/whole.ts"], env: SLOW_MACHINE });
    const env = {
      ...SLOW_MACHINE,
      BERTH_PORT: "0",
      BERTH_DATA: join(first.folder, "data"),
      BERTH_IMAGE_DIR: join(first.folder, "boot"),
      BERTH_LOG: "silent",
    };
    second = await startBerth(readConfig(env), createLog("silent"));
  });
  after(async () => {
    await second.close();
    await first.close();
  });

  const tools = async (url: string): Promise<string[]> => {
    const { body } = await post(url, request("tools/list"));
    return (body.result.tools as { name: string }[]).map(({ name }) => name);
  };

  it(
    "what one of them hides and shows, the other tells its clients, and stdio too (T4.5)",
    { timeout: 240_000 },
    async () => {
      const clients = await Promise.all(
        ["whole", ""].map((server) => LegacyClient.start(`${second.url}/mcp/${server}`)),
      );
      const readers = await Promise.all(clients.map((client) => client.listen()));
      const folder = ["--data", join(first.folder, "data"), "--image", join(first.folder, "boot")];
      const stdio = new StdioSession(["whole", ...folder]);
      try {
        await stdio.initialize();
        for (const open of [false, true]) {
          stdio.said.length = 0;
          await call(`${first.url}/mcp/whole`, "door", { open });
          for (const reader of readers) {
            assert.equal((await reader.nextMessage()).method, "notifications/tools/list_changed");
          }
          await stdio.until(({ method }) => method === "notifications/tools/list_changed");
          assert.equal((await tools(`${second.url}/mcp/whole`)).includes("treasure"), open);
          assert.equal((await tools(`${second.url}/mcp`)).includes("whole.treasure"), open);
        }
      } finally {
        for (const reader of readers) reader.close();
        await stdio.end();
      }
    },
  );
});
