import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import * as fc from "../support/fast-check.ts";
import { body, DEFINITION } from "../support/fuzz-messages.ts";
import { StdioSession } from "../support/stdio-session.ts";

const runs = fc.runs(5);

describe("arbitrary lines on stdio", () => {
  let berth: TestBerth;
  let folder: string;
  const sessions: StdioSession[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-fuzz-stdio-"));
    berth = await startTestBerth({ texts: { "fuzz.ts": DEFINITION } });
  });
  after(async () => {
    for (const { child } of sessions) child.kill("SIGKILL");
    await berth?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("get messages for answers, and nothing ends the connection but its end", async () => {
    const line = fc.oneof(
      { weight: 8, arbitrary: body.map((text) => Buffer.from(text.replaceAll("\n", " "))) },
      {
        weight: 1,
        arbitrary: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10))),
      },
    );
    const args = ["fuzz", "--image", join(berth.folder, "boot"), "--data", join(folder, "data")];
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 60 }), fc.boolean(), async (lines, isReady) => {
        const session = new StdioSession(args, { BERTH_LOG: "error" });
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
      { numRuns: runs, interruptAfterTimeLimit: 60_000, markInterruptAsFailure: false },
    );
  });
});
