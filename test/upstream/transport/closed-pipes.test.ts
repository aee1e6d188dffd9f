import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { pino } from "pino";
import type { BerthError } from "../../../src/lib/errors.ts";
import { openSpawnHelper } from "../../../src/processes/spawn/spawn-helper.ts";
import { hostedServer } from "../../support/hosted-upstreams.ts";
import { isAlive } from "../../support/processes.ts";
import { berthFor } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { connect, fixtures } from "../../support/upstreams.ts";

/** Closes the pipes that a call names, and keeps running. */
const closing = `mcp+python://${join(fixtures, "closing.py")}`;

const ENDED = [
  { pipes: ["stdin"], how: "close", reason: /^closed its stdin while it was running$/ },
  { pipes: ["stdin"], how: "stop reading", reason: /^closed its stdin while it was running$/ },
  { pipes: ["stdout"], how: "close", reason: /^closed its stdout while it was running$/ },
  { pipes: ["stdout"], how: "stop writing", reason: /^closed its stdout while it was running$/ },
  { pipes: ["stdin", "stdout", "stderr"], how: "close", reason: /^closed its std(?:in|out) while it was running$/ },
];
const SERVED = [
  { pipes: ["stderr"], how: "close" },
  { pipes: ["stdout"], how: "stop reading" },
];

describe("an upstream program that closes its pipes and keeps running", () => {
  const helper = openSpawnHelper({ onGone() {}, onStderr() {} });
  after(() => helper.close());

  for (const [spawner, start] of [
    ["this process", undefined],
    ["the spawn helper", helper.start],
  ] as const) {
    for (const { pipes, how, reason } of start ? ENDED.filter((each) => each.how === "close") : ENDED) {
      it(`is killed after "${how}" on ${pipes.join(", ")}, started by ${spawner}`, async () => {
        const upstream = await connect(closing, { start });
        const { content } = await upstream.callTool("close", { pipes, how });
        // A call that was written before the program closed a pipe may still be answered.
        const error = await until(() =>
          upstream.callTool("pid", {}).then(
            () => undefined,
            (reason: unknown) => reason,
          ),
        );
        assert.equal((error as BerthError).code, "upstream_ended");
        const closed = await upstream.closed;
        assert.match(closed.reason, reason);
        assert.equal(closed.expected, false);
        assert.ok(!isAlive(Number(content[0]!["text"])));
      });
    }

    for (const { pipes, how } of start ? [] : SERVED) {
      it(`is served after "${how}" on ${pipes.join(", ")}, started by ${spawner}`, async () => {
        const upstream = await connect(closing, { start });
        const before = await upstream.callTool("close", { pipes, how });
        assert.deepEqual((await upstream.callTool("pid", {})).content, before.content);
        await upstream.close();
        assert.equal((await upstream.closed).expected, true);
      });
    }
  }

  it("fails a call in progress with the reason", async () => {
    const upstream = await connect(closing);
    await assert.rejects(upstream.callTool("close", { pipes: ["stdout"], answers: false }), {
      code: "upstream_ended",
      message: /calling close: it closed its stdout while it was running$/,
    });
  });

  it("is logged, shown as failed, and started again", async (t) => {
    const lines: string[] = [];
    const log = pino({ level: "warn" }, { write: (line) => void lines.push(line) });
    // Without an automatic restart, which would end the state "failed" before it is seen.
    const env = { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_UPSTREAM_REOPEN_MS: "1000000000" };
    const berth = await berthFor(t, { mcps: { server: { upstream: closing } }, env, log });
    const server = hostedServer(berth);
    for (const pipe of ["stdin", "stdout"]) {
      const pid = Number(await server.call("close", { pipes: [pipe] }));
      const reason = `closing.py closed its ${pipe} while it was running`;
      const failure = await until(async () => {
        const now = await server.state();
        return now.state === "failed" && now.failure;
      });
      assert.equal(failure, reason);
      assert.ok(!isAlive(pid));
      await until(() => lines.some((line) => line.includes(`closed its ${pipe} while`)));
      assert.ok((await server.page()).includes(reason));
      assert.notEqual(await until(async () => Number(await server.call("pid"))), pid);
      assert.equal((await server.state()).state, "running");
    }
  });
});
