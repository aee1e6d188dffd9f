import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, answerTo, open } from "../../support/hosted-upstreams.ts";
import { processesWith } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { inOneOf } from "../../support/until.ts";
import { connect, everything } from "../../support/upstreams.ts";

const EVERY = `${everything}&env.BERTH_TEST_MARK=hosting-${process.pid}`;
const berth = berthInSuite({ mcps: { every: { upstream: EVERY } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });

test("every tool of a hosted server gives what it gives directly, to several clients at once, in both eras (J9)", async (t) => {
  const direct = await connect(everything, {
    capabilities: ALL,
    ask: (question) => Promise.resolve(answerTo(question.method)),
  });
  t.after(() => direct.close());
  const expected = new Map<string, unknown>();
  for (const [name, args] of Object.entries(CALLS)) {
    expected.set(name, essence(await direct.callTool(name, args)));
  }
  for (const mode of ["legacy", "auto"] as const) {
    const clients = await Promise.all(Array.from({ length: 4 }, () => open(t, berth, "every", mode)));
    const { tools } = await clients[0]!.listTools();
    const names = tools.map(({ name }) => name).filter((name) => !(name in UNREPEATABLE));
    assert.deepEqual(names.sort(), Object.keys(CALLS).sort());
    await Promise.all(
      clients.map(async (client) => {
        for (const [name, args] of Object.entries(CALLS)) {
          const result = essence(await client.callTool({ name, arguments: args }, { timeout: 120_000 }));
          assert.deepEqual(result, expected.get(name), `${mode} ${name}`);
        }
      }),
    );
  }
  assert.equal(processesWith(`hosting-${process.pid}`).length, 1, "all share one child");
});

test("progress of a hosted server reaches the caller, and a cancelled call ends (J9)", async (t) => {
  for (const mode of ["legacy", "auto"] as const) {
    const client = await open(t, berth, "every", mode);
    const name = "trigger-long-running-operation";
    // The client forgets progress that comes in one piece with the result.
    await inOneOf(10, async () => {
      const steps: number[] = [];
      await client.callTool(
        { name, arguments: { duration: 1, steps: 4 } },
        { onprogress: ({ progress }) => steps.push(progress) },
      );
      assert.deepEqual(steps, [1, 2, 3, 4]);
    });

    const cancelling = new AbortController();
    const long = client.callTool(
      { name, arguments: { duration: 60, steps: 600 } },
      { signal: cancelling.signal, onprogress: () => cancelling.abort() },
    );
    await assert.rejects(long);
    assert.equal((await client.callTool({ name: "echo", arguments: { message: "hi" } })).isError, undefined);
  }
});

/** The arguments of the tools; their results are the same each time, except the parts that `essence` leaves out. */
const CALLS: Record<string, Record<string, never> | Record<string, string | number | boolean>> = {
  echo: { message: "hi" },
  "get-annotated-message": { messageType: "error", includeImage: true },
  "get-resource-links": { count: 3 },
  "get-resource-reference": { resourceType: "Text", resourceId: 1 },
  "get-structured-content": { location: "New York" },
  "get-sum": { a: 1, b: 2 },
  "get-tiny-image": {},
  "gzip-file-as-resource": { name: "a.txt.gz", data: "data:text/plain,hello", outputType: "resource" },
  "get-roots-list": {},
  "trigger-elicitation-request": {},
  "trigger-sampling-request": { prompt: "hi", maxTokens: 10 },
  "trigger-long-running-operation": { duration: 0.2, steps: 2 },
};
/** The environment differs, switches change the server for all, and URLs are random each time. */
const UNREPEATABLE: Record<string, true> = {
  "get-env": true,
  "toggle-simulated-logging": true,
  "toggle-subscriber-updates": true,
  "trigger-url-elicitation": true,
  "simulate-research-query": true,
};

interface Result {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly isError?: unknown;
}

/** Times of day change. */
function essence({ content, structuredContent, isError }: Result): unknown {
  const text = JSON.stringify({ content, structuredContent, isError });
  return JSON.parse(
    text.replaceAll(/\d{1,2}:\d{2}:\d{2}( [AP]M)?/g, "TIME").replaceAll(/\d{4}-\d\d-\d\dT[\d:.TIME]+Z?/g, "DATE"),
  );
}
