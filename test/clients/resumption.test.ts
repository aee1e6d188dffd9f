import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { sessionFor } from "../support/clients/every-session.ts";
import { officialSession } from "../support/clients/official-session.ts";
import { olderSession } from "../support/clients/older-session.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const CONNECTION_MS = 150;

/** Resolves once clients have resumed a stream that many times. */
function resumed(times: number): Promise<void> {
  return new Promise((resolve) => {
    const onRequest = (message: unknown): void => {
      const { request } = message as { request: IncomingMessage };
      if (request.headers["last-event-id"] === undefined || --times > 0) return;
      unsubscribe("http.server.request.start", onRequest);
      resolve();
    };
    subscribe("http.server.request.start", onRequest);
  });
}

/** Connections end all the time: at a proxy, or because the server closes them. */
describe("clients of sessions whose connections end early", () => {
  const env = {
    BERTH_STREAM_CONNECTION_MS: String(CONNECTION_MS),
    BERTH_STREAM_RETRY_MS: "10",
    BERTH_SILENT_CALL_MS: "10",
  };
  const berth = berthInSuite({ files: ["test/fixtures/servers/whole.ts"], env });

  for (const opener of [officialSession("legacy"), olderSession("Streamable HTTP")]) {
    const { name } = opener;
    it(`${name} comes back for the result of a call (S7)`, async (t) => {
      const url = `${berth.url}/mcp/whole`;
      const session = await sessionFor(t, opener, url);
      const brewing = session.call("brew", { cup: name });
      await resumed(3);
      await call(url, "pour", { cup: name });
      assert.equal((await brewing).content[0]?.text, `${name} is ready`);
    });

    it(`${name} still hears of updates (S7, S11)`, async (t) => {
      const url = `${berth.url}/mcp/whole`;
      const session = await sessionFor(t, opener, url);
      await session.subscribe("notes://shopping");
      for (let times = 1; times <= 3; times++) {
        await resumed(1);
        await call(url, "write", { text: `${name} ${times}` });
        await until(() => session.heard.updated.length === times);
      }
    });
  }
});
