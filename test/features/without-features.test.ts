import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { guestPort, type PortHost } from "../../src/host/serving/guest-port.ts";
import type { Store } from "../../src/store/store.ts";
import { rigFor } from "../support/mcp-host.ts";

describe("a Berth without features", () => {
  it("names the request of guest code that nothing answers", async () => {
    const port = guestPort("default", "notes", {} as PortHost, {} as Store, {});
    const call = { caller: undefined, onOver: () => {} };
    await assert.rejects(port.request("stateGet", { key: "a" }, call), { message: /"stateGet" is unavailable/ });
  });

  it("serves the core, without their pages, API and navigation", async (t) => {
    const { url } = await rigFor(t);
    const get = (path: string): Promise<Response> =>
      fetch(new URL(path, url("own")), { headers: { Accept: "text/html" } });
    const page = await get("/servers/new");
    assert.equal(page.status, 200);
    assert.doesNotMatch(await page.text(), /href="\/state"/);
    for (const path of ["/state", "/api/state"]) assert.equal((await get(path)).status, 404, path);
  });
});
