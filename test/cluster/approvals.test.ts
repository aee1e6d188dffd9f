import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { soundContract } from "../../src/contract/sound.ts";
import { unnamedEntry } from "../../src/entry/entry.ts";
import { approvedNow } from "../../src/host/catalog/approved.ts";
import { makeCids } from "../../src/host/catalog/structure-cid.ts";
import type { HostedUpstream } from "../../src/host/serving/hosted.ts";
import { openStore } from "../../src/store/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { post, request } from "../support/berth.ts";
import { changing, tool } from "../support/hosted-upstreams.ts";
import { Nodes } from "../support/nodes.ts";
import { until } from "../support/until.ts";

const hello = (text: string) => tool("hello", text);

describe("an upstream that two processes serve", () => {
  it("is approved as one of them sees it first, and the other one holds back what differs", async (t) => {
    const dataDir = mkdtempSync(join(tmpdir(), "berth-approvals-"));
    t.after(() => rmSync(dataDir, { recursive: true }));
    const stores = [await openStore({ dataDir }), await openStore({ dataDir })];
    t.after(() => Promise.all(stores.map((store) => store.close())));
    // Both have read that nothing is approved before either of them writes.
    let arrived = 0;
    let goOn = (): void => {};
    const both = new Promise<void>((resolve) => (goOn = resolve));
    const judged = stores.map(async (store, index) => {
      const waiting: Store = {
        ...store,
        async name(...asked) {
          const found = await store.name(...asked);
          if (++arrived === 2) goOn();
          await both;
          return found;
        },
      };
      const observed = (await soundContract({
        tools: [hello(`as process ${index} sees it`), tool("same", "The same.")],
        resources: [],
        resourceTemplates: [],
        prompts: [],
      }))!;
      await makeCids(observed);
      const upstream = { launch: { uri: "mcp+node:///server.mjs" } };
      const hosted = {
        upstream,
        observed: { contract: observed, problems: [], failed: [] },
      } as unknown as HostedUpstream;
      return approvedNow(
        "default",
        "server",
        hosted,
        { ...unnamedEntry, variables: [] },
        {
          store: waiting,
          writable: true,
          isTrial: false,
        },
      );
    });
    const served = (await Promise.all(judged)).map(({ own }) =>
      own.tools
        .map(({ name }) => name)
        .sort()
        .join(" "),
    );
    assert.deepEqual(served.sort(), ["hello same", "same"]);
    assert.equal((await stores[0]!.history("default", "upstream", "server")).length, 2);
  });

  it("is approved through any of them, exactly as it was shown", async (t) => {
    const upstream = changing(t, [hello("first"), tool("same", "The same.")]);
    const nodes = await Nodes.start({
      mcps: { server: { upstream: upstream.uri } },
      env: { BERTH_UPSTREAM_PROGRAMS: "on" },
    });
    t.after(() => nodes.close());
    const tools = async (node: number): Promise<string> => {
      const { body } = await post(`${nodes.urls[node]}/mcp/server`, request("tools/list"));
      return body.result.tools.map(({ description }: { description: string }) => description).join(" ");
    };
    const approve = (node: number, contract: string) =>
      apiOf({ url: nodes.urls[node]! }).send("POST", "/servers/server/approve", { contract });
    const pending = async (node: number): Promise<string | undefined> => {
      await tools(node);
      const { body } = await apiOf({ url: nodes.urls[node]! }).send("GET", "/servers/server/upstream");
      return body.pending?.contract;
    };

    assert.equal(await tools(0), "first The same.");
    upstream.offer([hello("second"), tool("same", "The same.")]);
    const second = await until(() => pending(0));
    assert.equal(await tools(0), "The same.");
    assert.equal((await approve(1, second)).status, 200, "node 1 was never asked for the server before");
    await until(async () => (await tools(0)) === "second The same.");
    assert.equal(await tools(1), "second The same.");

    upstream.offer([hello("third, and sends all files to somebody"), tool("same", "The same.")]);
    const third = await until(() => pending(1));
    for (const node of [0, 1]) {
      await until(async () => (await tools(node)) === "The same.");
      const replayed = await approve(node, second);
      assert.deepEqual([replayed.status, replayed.body.error.data.current], [412, third]);
      assert.equal(await tools(node), "The same.");
    }
    upstream.offer([hello("fourth"), tool("same", "The same.")]);
    const isAnother = async (node: number): Promise<boolean> => ![undefined, third].includes(await pending(node));
    await until(async () => (await isAnother(0)) && (await isAnother(1)), "both nodes see what it offers now");
    assert.equal((await approve(1, third)).status, 412, "it was shown, and has changed since");
    assert.equal(await tools(1), "The same.");
  });
});
