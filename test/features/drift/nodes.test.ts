import assert from "node:assert/strict";
import { it } from "node:test";
import { sanitizeContract } from "../../../src/contract/sanitize.ts";
import { unnamedEntry } from "../../../src/entry/entry.ts";
import { readApproved } from "../../../src/features/drift/approved.ts";
import { makeCids } from "../../../src/host/offers/contract-cids.ts";
import type { HostedUpstream } from "../../../src/host/upstreams/hosted.ts";
import { openStore } from "../../../src/store/open-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { tool } from "../../support/hosted-upstreams.ts";
import { rows } from "../../support/rows.ts";
import { temporaryFolder } from "../../support/suite.ts";

it("an upstream that two processes serve is approved as one of them sees it first, and the other one holds back what differs", async (t) => {
  const dataDir = temporaryFolder(t);
  const stores = [await openStore({ dataDir }), await openStore({ dataDir })];
  t.after(() => Promise.all(stores.map((store) => store.close())));
  // Both have read that nothing is approved before either of them writes.
  let arrived = 0;
  let goOn = (): void => {};
  const both = new Promise<void>((resolve) => (goOn = resolve));
  const judged = stores.map(async (store, index) => {
    const name: Store["name"] = async (...asked) => {
      const found = await store.name(...asked);
      if (++arrived === 2) goOn();
      await both;
      return found;
    };
    const tools = [tool("hello", `as process ${index} sees it`), tool("same", "The same.")];
    const contract = (await sanitizeContract({ tools, resources: [], resourceTemplates: [], prompts: [] }))!;
    await makeCids(contract);
    const upstream = { launch: { uri: "mcp+node:///server.mjs" } };
    const observed = { contract, problems: [], failed: [] };
    const hosted = { upstream, observed, remember: () => {}, hasWritten: () => false } as unknown as HostedUpstream;
    const place = { store: { ...store, name }, writable: true, isTrial: false };
    return readApproved("default", "server", hosted, { ...unnamedEntry, variables: [] }, place);
  });
  const served = (await Promise.all(judged)).map(({ own }) => rows(own.tools, "name").sort().join(" "));
  assert.deepEqual(served.sort(), ["hello same", "same"]);
  assert.equal((await stores[0]!.history("default", "upstream", "server")).length, 2);
});
