import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { features } from "../../src/compose/features.ts";
import { readNamedEntry } from "../../src/entry/mcps.ts";
import { createGuestPort, type PortHost } from "../../src/host/serving/guest-port.ts";
import type { Store } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { call, post, request, withStatus } from "../support/berth.ts";
import { berthInProcess } from "../support/in-process.ts";
import { berthInSuite } from "../support/suite.ts";
import { notes } from "../support/upstreams.ts";

// This file has a process of its own.
(features as unknown[]).length = 0;

describe("a Berth without features", () => {
  const berth = berthInSuite({
    files: ["reference_templates/echo.ts"],
    env: { BERTH_EXPLORE: "on", BERTH_UPSTREAM_PROGRAMS: "on" },
  });
  const get = (path: string): Promise<Response> => fetch(berth.url + path, { headers: { Accept: "text/html" } });

  it("names the request of guest code that nothing answers", async () => {
    const port = createGuestPort("default", "notes", {} as PortHost, {} as Store, {});
    const call = { caller: undefined, onOver: () => {} };
    await assert.rejects(port.request("stateGet", { key: "a" }, call), { message: /"stateGet" is unavailable/ });
  });

  it("serves the core, without their pages, API, servers and navigation", async () => {
    const { content } = await call(`${berth.url}/mcp/echo`, "echo", { message: "hello" });
    assert.deepEqual(content, [{ type: "text", text: "hello" }]);
    const { body } = await post(`${berth.url}/mcp/echo`, request("echo.echo", { message: "hello" }));
    assert.equal(body.error.code, -32601);
    for (const path of [
      "/metrics",
      "/audit",
      "/api/audit",
      "/secrets",
      "/api/secrets",
      "/state",
      "/api/state",
      "/api/servers/echo/calls",
      "/mcp/explore",
      "/mcp/echo/sse",
    ])
      assert.equal((await get(path)).status, 404, path);
    const page = await (await get("/mcp/meta/echo?tab=connect")).text();
    assert.match(page, /\/mcp\/echo<\/code>/);
    assert.doesNotMatch(page, /href="\/state"|id="client-/);
  });

  it("saves and serves no entry with a field of theirs", async () => {
    for (const [feature, field] of [
      ["consents", { consent: ["echo"] }],
      ["retained-calls", { retain_calls: "7d" }],
      ["secrets", { secrets: ["API_TOKEN"] }],
    ] as const) {
      const entry = { definition: "echo.ts", ...field };
      const { body } = await withStatus(422, apiOf(berth).put("/entries/echo", JSON.stringify(entry)));
      assert.match(
        JSON.stringify(body),
        new RegExp(`needs the feature \\\\"${feature}\\\\", which this Berth does not have`),
      );
      assert.equal(readNamedEntry("echo", "echo", entry as never).refused, true);
    }
  });

  it("serves upstreams only if their entry withholds no change", async () => {
    const put = (hold: string) => apiOf(berth).put("/entries/notes", JSON.stringify({ upstream: notes, hold }));
    for (const hold of ["any", "breaking"]) {
      const { status, body } = await put(hold);
      assert.equal(status, 422);
      assert.match(JSON.stringify(body), /needs the feature \\"drift\\", which this Berth does not have/);
    }
    assert.equal((await put("none")).status, 201);
    const { content } = await call(`${berth.url}/mcp/notes`, "loose");
    assert.equal(content[0].text, "BRAF V600E is a common mutation.");
  });

  it("does not know their commands", async () => {
    for (const words of [
      ["audit"],
      ["call"],
      ["collect"],
      ["doctor"],
      ["connect"],
      ["profile"],
      ["secret"],
      ["state"],
      ["tenant", "export"],
      ["tenant", "import"],
    ]) {
      const { code, stderr } = await berthInProcess(words);
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`unknown command '${words.at(-1)}'`));
    }
    const { stderr } = await berthInProcess(["serve", "--image", "package.json"]);
    assert.match(stderr, /package\.json is a file, and this Berth serves none/);
  });
});
