import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { SessionNiceness } from "../../src/processes/niceness.ts";
import { spawnDirectly, type SpawnedProcess } from "../../src/processes/spawn/spawn.ts";
import { until } from "../support/until.ts";

/** How far the session gives way; the expected value where the system does not share time by session. */
function nicenessOf({ pid }: SpawnedProcess, expected: number): number {
  const file = `/proc/${pid}/autogroup`;
  const said = existsSync(file) ? / nice (-?\d+)$/m.exec(readFileSync(file, "utf8")) : null;
  return said ? Number(said[1]) : expected;
}

describe("a session that yields", () => {
  const withSession = async (
    forMs: number,
    use: (session: SessionNiceness, started: SpawnedProcess) => Promise<void>,
  ) => {
    let started: SpawnedProcess | undefined;
    const session = new SessionNiceness(() => started?.pid, { niceness: 7, forMs, otherwise: 2 });
    session.begin();
    started = await spawnDirectly({ file: "/bin/cat", args: [], env: {}, stdio: ["pipe", "ignore"], group: true });
    try {
      await use(session, started);
    } finally {
      session.end();
      started.pipes[0]!.end();
      await started.exited;
    }
  };

  it("gives way to others in each of its jobs, from when its process runs", () =>
    withSession(60_000, async (session, started) => {
      await until(() => {
        session.lower();
        return nicenessOf(started, 7) === 7;
      }, "it gives way");
      session.end();
      session.begin();
      assert.equal(nicenessOf(started, 7), 7);
    }));

  it("takes its part again when a job takes long, and gives way in the next one", () =>
    withSession(200, async (session, started) => {
      await until(() => {
        // Whatever took long until now, the job begins only now.
        session.begin();
        return nicenessOf(started, 7) === 7;
      }, "it gives way");
      await until(() => nicenessOf(started, 2) === 2, "it takes its part");
      session.end();
      await until(() => {
        session.begin();
        return nicenessOf(started, 7) === 7;
      }, "it gives way");
    }));
});
