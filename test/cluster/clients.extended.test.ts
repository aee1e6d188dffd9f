import { describe } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { everySession } from "../support/clients/every-session.ts";
import { wholeSession } from "../support/clients/whole-session.ts";
import { Nodes, NODES_TITLE, withClockAhead } from "../support/nodes.ts";
import { inSuite } from "../support/suite.ts";

/** All nodes know within this time what one of them has changed. */
const IN_FORCE_MS = 1_000;

/** Every client does everything, while each of its requests goes to another node. */
describe(`whole sessions of client libraries behind a load balancer of ${NODES_TITLE}`, () => {
  const nodes = inSuite(() =>
    Nodes.start({
      files: ["test/fixtures/servers/whole.ts"],
      envs: [withClockAhead(60), withClockAhead(-60)],
    }),
  );

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
