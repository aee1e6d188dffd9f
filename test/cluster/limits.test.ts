import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import type { EventReader } from "../support/legacy-client.ts";
import { Nodes, NODES_TITLE } from "../support/nodes.ts";
import { inSuite } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const SAY = 'export const say = (): string => "hello";\n';

describe(`limits of a tenant on ${NODES_TITLE} behind a load balancer`, () => {
  const nodes = inSuite(() => Nodes.start({ texts: { "say.ts": SAY }, env: { BERTH_NODE_LEASE_MS: "3000" } }));
  before(async () => {
    await onStoreOf(nodes, async (store) => {
      await addTenant(store, "saving", { limits: { savesPerMinute: 60 } });
      await addTenant(store, "listening", { servers: { say: SAY }, limits: { streams: 20 } });
    });
  });

  it("of 60 saves a minute apply to both together, after a quarter of them on each", async () => {
    let [saved, refused] = [0, 0];
    const began = performance.now();
    for (let number = 0; number < 60; number++) {
      const { status, body } = await apiOf({ url: `${nodes.urls[number % 2]}/t/saving` }).send(
        "PUT",
        `/variables/v${number}`,
        "text",
        { "If-None-Match": "*" },
      );
      if (status === 201) saved++;
      else {
        refused++;
        assert.equal(status, 429);
        assert.match(
          body.error.message,
          /"saving" may save 60 times a minute \(its limit savesPerMinute, else BERTH_SAVES_PER_MINUTE_PER_TENANT\); try again in \d+ s/,
        );
      }
    }
    // At most two bursts of 15, and what a minute gives meanwhile.
    const most = Math.max(45, 31 + (performance.now() - began) / 1_000);
    assert.ok(saved >= 15 && saved <= most, `${saved} were saved, ${refused} refused`);
  });

  it("of streams count those of the other node, until that ends", async () => {
    const streams: EventReader[] = [];
    const standing = [0, 0];
    const open = async (node: number): Promise<void> => {
      const stream = await listenTo(`${nodes.urls[node]}/t/listening/mcp/say`);
      if (stream.status !== 200) return stream.close();
      streams.push(stream);
      standing[node]! += 1;
    };
    for (let number = 0; number < 30; number++) await open(number % 2);
    const [one, other] = standing as [number, number];
    // Until they hear of each other, both may admit some that are too many.
    assert.ok(one + other >= 20 && one + other <= 30 && other > 0, `${one} and ${other} streams stand`);
    await nodes.endNode(1, "SIGKILL");
    await until(async () => {
      await open(0);
      return standing[0]! >= 20;
    });
    await open(0);
    assert.equal(standing[0], 20);
    for (const stream of streams) stream.close();
  });
});
