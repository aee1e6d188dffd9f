import { after, before, describe } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { everySession } from "../support/clients/every-session.ts";
import { wholeSession } from "../support/clients/whole-session.ts";
import { Nodes, withClockAhead } from "../support/nodes.ts";

/** A change of a client's settings at one node is in force at all others within this time. */
const IN_FORCE_MS = 1_000;

/**
 * Every client does everything, while each of its requests goes to another of three nodes on Postgres, whose clocks are up to
 * two minutes apart. The tests of sessions do so on either store.
 */
describe("whole sessions of client libraries behind a load balancer", () => {
  let nodes: Nodes;
  before(async () => {
    nodes = await Nodes.start({
      onPostgres: true,
      files: ["test/fixtures/servers/whole.ts"],
      envs: [withClockAhead(60), withClockAhead(-60)],
    });
  });
  after(() => nodes.close());

  // The same client in the era that it finds by itself does nothing else.
  for (const opener of everySession.filter(({ name }) => !name.includes("(auto)"))) {
    describe(opener.name, () =>
      wholeSession(
        opener,
        () => `${nodes.url}/mcp/whole`,
        () => sleep(IN_FORCE_MS),
      ),
    );
  }
});
