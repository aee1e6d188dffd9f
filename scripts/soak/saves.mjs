import { setTimeout as sleep } from "node:timers/promises";
import { Nodes } from "../../dist/test/support/nodes.js";
import { Saves } from "../../dist/test/support/saves.js";

const WRITERS = 8;
/** The longest time from the start of a node to its end. */
const LIVES_MS_MAX = 3_000;

/**
 * Makes saves through two processes on one data folder, or three on one Postgres (BERTH_TEST_STORE=postgres), behind haproxy, one of which is killed with -9 at a time. Each save
 * that was acknowledged has to be there, and each that was made has to have one audit record.
 *
 * @param {number} count
 */
export async function makeSaves(count) {
  const nodes = await Nodes.start({
    texts: { "echo.ts": 'export const echo = (): string => "hello";\n' },
    env: { BERTH_SAVES_PER_MINUTE_PER_TENANT: "0" },
  });
  try {
    const startedAt = performance.now();
    const saves = new Saves(nodes.url, count);
    const over = new AbortController();
    const writing = saves.write(WRITERS).finally(() => over.abort());
    let kills = 0;
    while (!over.signal.aborted) {
      await Promise.race([writing, sleep(Math.random() * LIVES_MS_MAX)]);
      const node = Math.floor(Math.random() * nodes.urls.length);
      await nodes.endNode(node, "SIGKILL");
      await nodes.startNode(node);
      kills += 1;
      if (kills % 10 === 0) console.log(`${kills} kills, ${saves.acknowledged} saves`);
    }
    await writing;
    await saves.check(nodes);
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    console.log(
      `${saves.acknowledged} acknowledged saves are there, each with one audit record, after ${kills} kills in ${seconds} s; ` +
        `${saves.unanswered} others got no answer`,
    );
  } finally {
    await nodes.close();
  }
}
