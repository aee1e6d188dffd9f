import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { makeImage } from "../support/berth.ts";
import * as fc from "../support/fast-check.ts";
import { body, DEFINITION } from "../support/fuzz-messages.ts";
import { StdioSession } from "../support/stdio-session.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

describe("arbitrary lines on stdio", () => {
  const folder = temporaryFolder();
  const sessions: StdioSession[] = [];
  after(() => sessions.forEach(({ child }) => child.kill("SIGKILL")));

  it("are answered with messages, and never end the connection", async () => {
    const line = fc.oneof(
      { weight: 8, arbitrary: body.map((text) => Buffer.from(text.replaceAll("\n", " "))) },
      {
        weight: 1,
        arbitrary: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10))),
      },
    );
    const image = await makeImage(folder, { texts: { "fuzz.ts": DEFINITION } });
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 60 }), fc.boolean(), async (lines, isReady) => {
        const session = new StdioSession(["fuzz"], { ...image, BERTH_LOG: "error" });
        sessions.push(session);
        if (isReady) await session.initialize("2025-11-25");
        for (const each of lines) {
          session.child.stdin!.write(each);
          session.child.stdin!.write("\n");
        }
        session.send({ jsonrpc: "2.0", id: "alive", method: "ping" });
        await session.answer("alive");
        assert.equal(await session.end(), 0);
        assert.equal(session.stderr, "");
        for (const said of session.said.flat()) {
          assert.equal(said.jsonrpc, "2.0");
          assert.notEqual(said.error?.code, -32603, JSON.stringify(said));
        }
      }),
      { numRuns: fc.runs(5), interruptAfterTimeLimit: 60_000, markInterruptAsFailure: false },
    );
  });
});
