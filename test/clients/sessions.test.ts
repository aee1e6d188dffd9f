import { after, before, describe } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { everySession } from "../support/clients/every-session.ts";
import { wholeSession } from "../support/clients/whole-session.ts";

/** Every client does everything, in one session each, at one server for all tests. */
describe("whole sessions of client libraries", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ files: ["test/fixtures/servers/whole.ts"] });
  });
  after(() => berth.close());

  for (const opener of everySession) describe(opener.name, () => wholeSession(opener, () => `${berth.url}/mcp/whole`));
});
