import { describe } from "node:test";
import { everySession } from "../support/clients/every-session.ts";
import { wholeSession } from "../support/clients/whole-session.ts";
import { berthInSuite } from "../support/suite.ts";

/** Every client does everything, in one session each, at one server for all tests. */
describe("whole sessions of client libraries", () => {
  const berth = berthInSuite({ files: ["test/fixtures/servers/whole.ts"] });

  for (const opener of everySession) describe(opener.name, () => wholeSession(opener, () => `${berth.url}/mcp/whole`));
});
