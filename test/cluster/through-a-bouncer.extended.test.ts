import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, callText } from "../support/berth.ts";
import { Nodes } from "../support/nodes.ts";
import { startBouncer, startPostgres, type TestBouncer, type TestPostgres } from "../support/postgres.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { until } from "../support/until.ts";

const KIT = `import type { ToolContext } from "berth";
export const echo = (): string => "hello";
export const read = ({ variable }: ToolContext): Promise<string | undefined> => variable("saved");
export async function keep(value: number, { state }: ToolContext): Promise<number> {
  return state.update<number>("sum", (sum = 0) => sum + value);
}
`;
/** Changes are found by looking twice a second, where nothing tells of them. */
const IN_FORCE_MS = 1_000;
const TRIES = 5;
const AT_ONCE_MS = 2_000;
const WELL_MS = 5_000;

/** Debian's own Postgres, which the nodes reach through pgbouncer in transaction mode: they hear of nothing by LISTEN. */
describe("nodes that reach the system's Postgres through pgbouncer", () => {
  let postgres: TestPostgres;
  let bouncer: TestBouncer;
  let nodes: Nodes;
  before(async () => {
    postgres = await startPostgres({ from: "system" });
    bouncer = await startBouncer(postgres);
    nodes = await Nodes.start({ database: bouncer.urlOf(await postgres.database()), texts: { "kit.ts": KIT } });
  });
  after(async () => {
    await nodes?.close();
    await bouncer?.close();
    await postgres?.close();
  });

  const valueAt = (node: number): Promise<string> => callText(`${nodes.urls[node]}/mcp/kit`, "read");

  it("see each other's edits within a second, and lose none of what they write at once", async () => {
    const took: number[] = [];
    for (let number = 0; number < TRIES; number++) {
      const text = `text ${number}`;
      const saved = await apiOf({ url: nodes.urls[0]! }).put("/variables/saved", text);
      assert.ok(saved.status < 300, String(saved.body));
      const tookMs = stopwatch();
      await until(async () => (await valueAt(number % 2 === 0 ? 1 : 2)) === text);
      took.push(tookMs());
    }
    const usual = took.sort((one, other) => one - other)[Math.floor(TRIES / 2)]!;
    assert.ok(usual < IN_FORCE_MS, `an edit was in force after ${usual} ms`);

    const keeping = Array.from({ length: 30 }, (_, index) =>
      callText(`${nodes.urls[index % 3]}/mcp/kit`, "keep", { value: 1 }),
    );
    const sums = new Set(await Promise.all(keeping));
    assert.deepEqual(sums, new Set(Array.from({ length: 30 }, (_, index) => String(index + 1))));
  });

  it("serve on while nothing comes through and nobody says so, refuse changes at once, and are well again by themselves", async (t) => {
    const save = async (node: number, text: string): Promise<number> => {
      const init = { method: "PUT", headers: { "If-Match": "*", "Content-Type": "text/plain" }, body: text };
      const url = `${nodes.urls[node]}/api/variables/saved`;
      const saving = fetch(url, { ...init, signal: AbortSignal.timeout(AT_ONCE_MS) });
      return saving.then(({ status }) => status).catch(() => 0);
    };
    assert.ok((await save(0, "before")) < 300);
    for (const url of nodes.urls) await call(`${url}/mcp/kit`, "echo");
    bouncer.pause();
    t.after(() => bouncer.resume());
    for (const [node, url] of nodes.urls.entries()) {
      await until(async () => (await save(node, "meanwhile")) === 503);
      assert.equal((await call(`${url}/mcp/kit`, "echo")).content[0].text, "hello");
      assert.equal((await fetch(`${url}/readyz`)).status, 200);
    }
    bouncer.resume();
    const tookMs = stopwatch();
    for (const node of nodes.urls.keys()) await until(async () => (await save(node, `after ${node}`)) < 300);
    const ms = tookMs();
    assert.ok(ms < WELL_MS, `well again after ${ms} ms`);
  });
});
