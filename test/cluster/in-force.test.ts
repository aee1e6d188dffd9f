import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { post, request } from "../support/berth.ts";
import { changing, tool } from "../support/hosted-upstreams.ts";
import { Nodes, NODES_TITLE } from "../support/nodes.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { inSuite } from "../support/suite.ts";
import { addTenant, listenTo, onStoreOf } from "../support/tenants.ts";
import { bearer, signIn } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const ADMIN = "the-admin-token-of-this-test";
const SERVED = `import type { ToolContext } from "berth";
export const echo = (): string => "hello";
export async function secretUnits(context: ToolContext): Promise<number> {
  return ((await context.secret("KEY")) ?? "").length;
}
export async function hide(context: ToolContext): Promise<void> { await context.hide("echo"); }
export async function show(context: ToolContext): Promise<void> { await context.show("echo"); }
`;

const hello = (number: number) => tool("hello", `number ${number}`);

/** How many changes a run makes; the numbers of each kind below are of 500. */
const CHANGES = Number(process.env["BERTH_TEST_CHANGES"] ?? 25);

/** Makes the change of that number on one node; returns what tells whether it is in force on the other one. */
type Change = (number: number) => Promise<() => Promise<boolean>>;

describe(`a change through one of ${NODES_TITLE}, on another`, { concurrency: true }, () => {
  const began = performance.now();
  const upstream = changing({ after }, [hello(0)]);
  const latencies: number[] = [];

  const nodes = inSuite(() =>
    Nodes.start({
      texts: { "served.ts": SERVED, "edited.ts": SERVED, "pinned.ts": SERVED },
      mcps: {
        served: { definition: "served.ts", secrets: ["KEY"] },
        upstream: { upstream: upstream.uri },
      },
      env: {
        BERTH_ACCESS: "required",
        BERTH_ADMIN_TOKEN: ADMIN,
        BERTH_UPSTREAM_PROGRAMS: "on",
        BERTH_VISIBILITY_CHANGES_PER_MINUTE: "1000000",
        BERTH_SAVES_PER_MINUTE_PER_TENANT: "0",
        // Streams look into the store as often: only the other node's news can end them sooner.
        BERTH_STREAM_KEEP_ALIVE_MS: "600000",
      },
    }),
  );
  before(async () => {
    await onStoreOf(nodes, async (store) => {
      for (const name of ["suspended", "limited", "identified"]) await addTenant(store, name);
    });
  });
  after(() => {
    const sorted = latencies.toSorted((one, other) => one - other);
    const at = (part: number): number => Math.round(sorted[Math.ceil(sorted.length * part) - 1] ?? 0);
    const figures = `of ${sorted.length} changes in ${Math.round((performance.now() - began) / 1_000)} s: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, most ${at(1)} ms`;
    // A busy machine delays some of them. Without news, most would wait for a second.
    assert.ok(at(0.5) < 1_000, figures);
  });

  const [ONE, OTHER] = [0, 1];
  const admin = bearer(ADMIN);
  const api = (node: number) => apiOf({ url: nodes.urls[node]! });
  const get = (path: string, headers: Record<string, string> = admin): Promise<Response> =>
    fetch(`${nodes.urls[OTHER]}${path}`, { headers, redirect: "manual" });

  async function tools(server: string): Promise<readonly { name: string; description: string }[]> {
    const { body } = await post(`${nodes.urls[OTHER]}/mcp/${server}`, request("tools/list"), admin);
    return body.result?.tools ?? [];
  }

  async function use(node: number, server: string, name: string): Promise<{ content: { text: string }[] }> {
    const { body } = await post(`${nodes.urls[node]}/mcp/${server}`, request("tools/call", { name }), admin);
    assert.ok(body.result && body.result.isError !== true, JSON.stringify(body));
    return body.result;
  }

  async function api200(node: number, method: string, path: string, body?: unknown, headers = {}) {
    const answer = await api(node).send(method, path, body, { ...admin, ...headers });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer;
  }

  /** As `berth tenant` does, which is a third process. */
  const setTenant = (name: string, settings: object): Promise<unknown> =>
    onStoreOf(nodes, (store) => store.tenants.change(name, { by: "test", ...settings }));

  const changes: Readonly<Record<string, readonly [number, () => Promise<Change>]>> = {
    edit: [
      30,
      async () => async (number) => {
        await describeServer("edited", `number ${number}`);
        return async () => (await (await get("/mcp/meta/edited")).text()).includes(`number ${number}`);
      },
    ],
    approval: [
      20,
      async () => {
        await until(async () => (await tools("upstream")).length === 1);
        return async (number) => {
          upstream.offer([hello(number + 1)]);
          let contract: string | undefined;
          await until(async () => {
            if ((await tools("upstream")).length > 0) return false;
            const { body } = await api200(ONE, "GET", "/servers/upstream/upstream");
            contract = body.pending?.contract;
            return contract !== undefined;
          });
          await api200(ONE, "POST", "/servers/upstream/approve", { contract });
          return async () => (await tools("upstream"))[0]?.description === `number ${number + 1}`;
        };
      },
    ],
    secret: [
      80,
      async () => async (number) => {
        await api200(ONE, "PUT", "/secrets/KEY", "x".repeat(number + 6));
        return async () => (await use(OTHER, "served", "secretUnits")).content[0]!.text === String(number + 6);
      },
    ],
    suspension: [
      70,
      async () => async (number) => {
        const suspended = number % 2 === 0;
        await setTenant("suspended", { suspended });
        return async () => ((await get("/t/suspended/mcp")).status === 200) !== suspended;
      },
    ],
    revocation: [
      80,
      async () => async () => {
        const { body } = await api200(ONE, "POST", "/tokens", { name: "short", can: ["read"] });
        const isGood = async (): Promise<boolean> => (await get("/api/variables", bearer(body.token))).status === 200;
        assert.ok(await isGood());
        await api200(ONE, "DELETE", `/tokens/${body.id}`);
        return async () => !(await isGood());
      },
    ],
    visibility: [
      40,
      async () => async (number) => {
        const isHidden = number % 2 === 0;
        await use(ONE, "served", isHidden ? "hide" : "show");
        return async () => (await tools("served")).some(({ name }) => name === "echo") !== isHidden;
      },
    ],
    withdrawal: [
      40,
      async () => {
        await use(ONE, "pinned", "echo");
        const { body: before } = await api200(ONE, "GET", "/servers/pinned/releases");
        const release = before.releases[0].release as string;
        await describeServer("pinned", "The next one.");
        const path = `/servers/pinned/releases/${release}/withdrawal`;
        return async (number) => {
          const isWithdrawn = number % 2 === 0;
          await api200(ONE, isWithdrawn ? "PUT" : "DELETE", path);
          return async () => {
            const answer = await post(`${nodes.urls[OTHER]}/mcp/pinned@${release}`, request("tools/list"), admin);
            return (answer.status === 410) === isWithdrawn;
          };
        };
      },
    ],
    limits: [
      60,
      async () => async (number) => {
        const isRefused = number % 2 === 0;
        await setTenant("limited", { limits: isRefused ? { requests: 0 } : {} });
        return async () => ((await get("/t/limited/mcp")).status === 429) === isRefused;
      },
    ],
    oauth: [
      20,
      async () => async (number) => {
        const issuer = `https://issuer-${number}.example`;
        await setTenant("identified", { oauth: { issuer } });
        return async () => {
          const answer = await get("/.well-known/oauth-protected-resource/t/identified/mcp");
          return (await answer.text()).includes(issuer);
        };
      },
    ],
    "sign-out": [
      60,
      async () => async () => {
        const { Cookie: cookie } = await signIn(nodes.urls[ONE]!, ADMIN);
        const isSignedIn = async (): Promise<boolean> => (await get("/mcp", { Cookie: cookie })).status === 200;
        assert.ok(await isSignedIn());
        await signOut(cookie);
        return async () => !(await isSignedIn());
      },
    ],
  };

  async function signOut(cookie: string): Promise<void> {
    const headers = { Cookie: cookie, Origin: nodes.urls[ONE]! };
    await fetch(`${nodes.urls[ONE]}/sign-out`, { method: "POST", headers, redirect: "manual" });
  }

  async function describeServer(server: string, description: string): Promise<void> {
    const { body } = await api200(ONE, "GET", `/entries/${server}`);
    const entry = JSON.stringify({ ...JSON.parse(body.files[body.entry]), description });
    // Another server may hide a tool meanwhile.
    await api200(ONE, "PUT", `/entries/${server}`, entry, { "If-Match": "*", "Berth-Allow-Breaking": "true" });
  }

  for (const [what, [count, begin]] of Object.entries(changes)) {
    it(`takes effect: ${what}`, async () => {
      const change = await begin();
      for (let number = 0; number < (count * CHANGES) / 500; number++) {
        const isInForce = await change(number);
        const sinceMade = stopwatch();
        await until(isInForce);
        const tookMs = sinceMade();
        const sinceLook = stopwatch();
        await isInForce();
        // A look that comes just too early is repeated after five times as long as it takes.
        latencies.push(tookMs - 7 * sinceLook());
      }
    });
  }

  it("is labelled as known to one process alone when a page shows its calls", async () => {
    assert.match(await (await get("/mcp/meta/edited?tab=calls")).text(), /Several processes serve here/);
  });

  it("ends the streams of a user that signs out", async () => {
    const { Cookie: cookie } = await signIn(nodes.urls[ONE]!, ADMIN);
    const stream = await listenTo(`${nodes.urls[OTHER]}/mcp/served`, { Cookie: cookie, Origin: nodes.urls[OTHER]! });
    await stream.nextMessage();
    await signOut(cookie);
    while (await stream.next().catch(() => undefined));
  });
});
