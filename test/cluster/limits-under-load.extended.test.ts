import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { after, before, describe, it } from "node:test";
import { request } from "../support/berth.ts";
import { Nodes, NODES_TITLE } from "../support/nodes.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { inOneOf, until } from "../support/until.ts";

const SAY = 'export const say = (): string => "hello";\n';
const FIRST_MS = 3_000;
const SECONDS = 10;

describe(`request rates of a tenant on ${NODES_TITLE} behind a load balancer`, () => {
  let nodes: Nodes;
  before(async () => {
    nodes = await Nodes.start({ texts: { "say.ts": SAY }, env: { BERTH_NODE_LEASE_MS: "3000" } });
    const rate = { requestsPerSecond: 100, requestBurst: 40 };
    await onStoreOf(nodes, async (store) => {
      for (const name of ["spread", "one-sided"]) await addTenant(store, name, { servers: { say: SAY }, limits: rate });
      await addTenant(store, "quiet", { servers: { say: SAY }, limits: { requestsPerSecond: 20 } });
    });
    for (const url of nodes.urls) for (const name of ["spread", "one-sided", "quiet"]) await call(url, name);
  });
  after(() => nodes?.close());

  /** The status; undefined where there is no answer. */
  async function call(url: string, tenant: string, agent?: Agent): Promise<number | undefined> {
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const asked = httpRequest(`${url}/t/${tenant}/mcp/say`, { method: "POST", agent, headers });
    asked.on("error", () => {}).end(JSON.stringify(request("tools/list")));
    try {
      const [response] = (await once(asked, "response")) as [IncomingMessage];
      await once(response.resume(), "end");
      return response.statusCode;
    } catch {
      return undefined;
    }
  }

  /**
   * Sends so many a second; counts those that are admitted, and refused, once the first burst is over. `lostMs`: how
   * long a busy machine sent or answered nothing although it was due; what was not used meanwhile is gone.
   */
  async function load(
    url: string,
    tenant: string,
    perSecond: number,
    agent?: Agent,
  ): Promise<{ admitted: number; refused: number; lostMs: number }> {
    const began = performance.now();
    const counted = { admitted: 0, refused: 0, lostMs: 0 };
    let answered = began;
    let underWay = 0;
    const send = async (): Promise<void> => {
      underWay++;
      const isAdmitted = (await call(url, tenant, agent)) === 200;
      underWay--;
      const now = performance.now();
      counted.lostMs += Math.max(0, now - answered - 100);
      answered = now;
      const ms = now - began;
      if (ms >= FIRST_MS && ms < FIRST_MS + SECONDS * 1_000) counted[isAdmitted ? "admitted" : "refused"]++;
    };
    let sent = 0;
    for (let now = began; now - began < FIRST_MS + SECONDS * 1_000; now = performance.now()) {
      const due = ((now - began) / 1_000) * perSecond;
      // What a busy machine is late with is not made up for in one burst, and does not pile up.
      sent = Math.max(sent, due - perSecond / 4);
      for (; sent < due; sent++) if (underWay < perSecond) void send();
      await new Promise((resolve) => setTimeout(resolve, 10));
      counted.lostMs += Math.max(0, performance.now() - now - 100);
    }
    await until(() => underWay === 0, "all are answered");
    return counted;
  }

  it("100 a second are 100 a second in all, wherever they arrive, and another tenant has all of its own", async () => {
    await inOneOf(5, async () => {
      const connection = new Agent({ keepAlive: true, maxSockets: 1 });
      const [spread, oneSided, quiet] = await Promise.all([
        load(nodes.url, "spread", 160),
        // Above 50 a second, refusals take a while, and hold up what follows on the connection.
        load(nodes.urls[0]!, "one-sided", 140, connection),
        load(nodes.url, "quiet", 10),
      ]);
      connection.destroy();
      const figures = JSON.stringify({ spread, oneSided, quiet });
      for (const { admitted, refused, lostMs } of [spread, oneSided]) {
        assert.ok(admitted >= 900 - lostMs / 10 && admitted <= 1_100, figures);
        assert.ok(refused > 0, figures);
      }
      assert.equal(quiet.refused, 0, figures);
    });
  });
});
