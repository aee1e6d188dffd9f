import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Nodes } from "../support/nodes.ts";
import { openWay, type PostgresWay } from "../support/postgres-way.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { Saves } from "../support/saves.ts";
import { until } from "../support/until.ts";

const SAVES = 200;
const PLAIN = `import type { ToolContext } from "berth";
export const read = ({ variable }: ToolContext): Promise<string | undefined> => variable("saved");
`;
/** Two servers of Debian's, of which one is the standby of the other, and the way to the one that takes writes. */
class Pair {
  readonly first: TestPostgres;
  readonly standby: TestPostgres;
  /** To the server that takes writes, as a TCP proxy leads there. */
  readonly way: PostgresWay;
  /** From the standby to the first. */
  readonly replication: PostgresWay;

  private constructor(first: TestPostgres, standby: TestPostgres, way: PostgresWay, replication: PostgresWay) {
    this.first = first;
    this.standby = standby;
    this.way = way;
    this.replication = replication;
  }

  static async start(): Promise<Pair> {
    const first = await startPostgres({ from: "system" });
    const replication = await openWay(first.url);
    const standby = await startPostgres({ from: "system", standbyOf: replication.url });
    return new Pair(first, standby, await openWay(await first.database()), replication);
  }

  /** Commits wait for the standby from now on. */
  async synchronize(): Promise<void> {
    await this.first.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    await this.first.query("SELECT pg_reload_conf()");
    await until(
      async () => (await this.first.query("SELECT sync_state FROM pg_stat_replication"))[0]?.["sync_state"] === "sync",
    );
  }

  async failOver(): Promise<void> {
    await this.first.stop("crash");
    this.way.cut();
    await this.standby.promote();
    this.way.leadTo(this.standby.url);
    this.way.mend();
  }

  async close(): Promise<void> {
    await this.way.close();
    await this.standby.close();
    await this.replication.close();
    await this.first.close();
  }
}

describe("nodes whose Postgres fails over to its standby", () => {
  let pair: Pair;
  let nodes: Nodes;
  let said = "";
  before(async () => {
    pair = await Pair.start();
    nodes = await Nodes.start({
      database: pair.way.url,
      texts: { "plain.ts": PLAIN },
      env: { BERTH_SAVES_PER_MINUTE_PER_TENANT: "0" },
    });
    for (const index of nodes.urls.keys()) nodes.node(index).child.stderr!.on("data", (text: string) => (said += text));
  });
  after(async () => {
    await nodes?.close();
    await pair?.close();
  });

  it("lose nothing that was acknowledged, where each commit waited for the standby", async () => {
    await pair.synchronize();
    const saves = new Saves(nodes.url, SAVES);
    const writing = saves.write(6);
    await until(() => saves.acknowledged > SAVES / 3);
    await pair.failOver();
    await writing;
    assert.ok(saves.acknowledged >= SAVES);
    await saves.check(nodes);
    for (const url of nodes.urls) assert.equal((await fetch(`${url}/readyz`)).status, 200);
    await until(() => said.split("another database took over").length > nodes.urls.length);
  });
});
