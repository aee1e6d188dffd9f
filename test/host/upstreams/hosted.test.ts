import assert from "node:assert/strict";
import { it } from "node:test";
import { sanitizeContract } from "../../../src/contract/sanitize.ts";
import { cidOf, makeCids } from "../../../src/host/offers/contract-cids.ts";
import { HostedUpstream, type HostedNodes } from "../../../src/host/upstreams/hosted.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import type { Observed } from "../../../src/upstream/calls/observe.ts";
import type { Upstream } from "../../../src/upstream/upstream.ts";
import { tool } from "../../support/hosted-upstreams.ts";
import { until } from "../../support/until.ts";

async function observed(description: string): Promise<Observed> {
  const lists = { resources: [], resourceTemplates: [], prompts: [] };
  const contract = (await sanitizeContract({ tools: [tool("hello", description)], ...lists }))!;
  await makeCids(contract);
  return { contract, failed: [], problems: [], bytes: 0 };
}

it("an upstream that another node runs is read again after a failed read, and after a change that is reported during a read", async () => {
  const [first, second, third] = [await observed("first"), await observed("second"), await observed("third")];
  let finish: (read: Observed) => void = () => {};
  const during = new Promise<Observed>((resolve) => (finish = resolve));
  const reads = [
    () => Promise.resolve(first),
    () => Promise.reject(new Error("the other node is busy")),
    () => during,
    () => Promise.resolve(third),
  ];
  const owner = { elsewhere: "other", find: async () => ({ node: "other", fence: 1 }) };
  const nodes = { id: "this", owner, elsewhere: { offers: () => reads.shift()!() } } as unknown as HostedNodes;
  const ignore = (): void => {};
  const hosted = new HostedUpstream(
    { uri: "mcp+node:///server.mjs" } as never,
    () => ({}) as Upstream,
    defaultLimits,
    { onChange: ignore, onProblems: ignore, onResourceUpdated: ignore, onLost: ignore, onError: ignore },
    () => nodes,
  );
  await hosted.start();
  hosted.followOffers(cidOf(second.contract));
  await until(() => reads.length === 1);
  hosted.followOffers(cidOf(third.contract));
  finish(second);
  await until(() => hosted.observed?.contract === third.contract);
  assert.equal(reads.length, 0);
});
