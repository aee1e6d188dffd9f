import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MessageBudgets, programBacklog, type MessageBudget } from "../../../src/lib/message-budget.ts";
import type { UpstreamConnection } from "../../../src/upstream/calls/connection.ts";
import { UpstreamError } from "../../../src/upstream/messages/upstream-error.ts";
import { lower } from "../../support/lowered-limits.ts";
import { processesWith, statOf } from "../../support/processes.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { connect, hostile } from "../../support/upstreams.ts";

/** Counts nothing. */
const none: MessageBudget = { begin: () => ({ add: () => {}, end: () => {} }) };

/** Connects, expects the failure, and checks that nothing is left running. */
async function fails(way: string, limits: Parameters<typeof connect>[1]): Promise<UpstreamError> {
  const mark = randomUUID();
  const error: unknown = await connect(hostile(way, `&env.MARK=${mark}`), limits).then(
    () => assert.fail("it started"),
    (reason: unknown) => reason,
  );
  assert.deepEqual(processesWith(mark), []);
  assert.ok(error instanceof UpstreamError, String(error));
  return error;
}

test("a server that dies at start says why, with the end of its stderr and no secret in it (J1)", async () => {
  const uri = hostile("dies at start", "&env.KEY=${KEY}");
  const env = { ...process.env, KEY: "hunter2-very-secret" };
  const error = (await connect(uri, { env }).catch((reason: unknown) => reason)) as UpstreamError;
  assert.equal(error.code, "upstream_not_started");
  assert.match(error.message, /hostile\.mjs ended with exit code 7$/);
  assert.match(error.stderr, /no API key; it would be \[hidden\]/);
});

test("a server that prints garbage without end is ended, and the error shows what it printed", async () => {
  const error = await fails("prints garbage", {});
  assert.equal(error.code, "upstream_not_started");
  assert.match(error.message, /sent more than 1048576 bytes that are not messages \("Welcome to the server!"\)/);
});

test("a server that floods one line is ended at the limit upstreamMessageBytes", async () => {
  const error = await fails("floods one line", { limits: { upstreamMessageBytes: 1_000_000 } });
  assert.match(error.message, /sent a line of more than 1000000 bytes/);
});

test("a start that is cancelled leaves nothing running", async () => {
  const mark = randomUUID();
  const signal = AbortSignal.timeout(200);
  await assert.rejects(connect(hostile("never answers", `&env.MARK=${mark}`), { signal }), { code: "cancelled" });
  assert.deepEqual(processesWith(mark), []);
});

test("a server that floods stderr is served all the same, and only the end is kept", async (t) => {
  t.after(lower({ upstreamStderrBytes: 100 }));
  const upstream = await connect(hostile("floods stderr"));
  assert.equal((await upstream.callTool("any", {})).content[0]!["text"], "still here");
  await upstream.close();
  assert.equal((await upstream.closed).stderr, "y".repeat(100));
});

test("a server that floods with notifications is read no faster than upstreamNotificationsPerSecond", async (t) => {
  t.after(lower({ upstreamNotificationsPerSecond: 100 }));
  let notified = 0;
  const upstream = await connect(hostile("floods notifications"), {
    onNotification: () => void notified++,
  });
  const startedAt = performance.now();
  await upstream.callTool("any", {});
  // One piece of a full pipe may hold some hundred of them.
  await until(() => notified > 500);
  const most = 5000 + (performance.now() - startedAt) / 10;
  assert.ok(notified < most, String(notified));
  await upstream.close();
});

test("a program that answers a call that it has not read is ended, so that no arguments stay in its pipe", async () => {
  const mark = randomUUID();
  const upstream = await connect(hostile("reads no more", `&env.MARK=${mark}`));
  await upstream.callTool("answers", {});
  await assert.rejects(upstream.callTool("any", { long: "x".repeat(2_000_000) }), {
    code: "upstream_ended",
    message: /calling any: it answered a request before reading it$/,
  });
  assert.equal((await upstream.closed).expected, false);
  assert.deepEqual(processesWith(mark), []);
});

test("of programs that do not read, the one that waited longest is ended where its tenant has no more room", async () => {
  const backlog = new MessageBudgets(programBacklog, {
    programBacklogBytes: 1e9,
    programBacklogBytesPerTenant: 5_000_000,
  });
  const uris = { deaf: "reads no more", alike: "reads no more", others: "reads no more", reads: "answers as it likes" };
  const opened = Object.entries(uris).map(async ([name, way]): Promise<[string, UpstreamConnection]> => {
    const rooms = { unfinished: none, backlog: backlog.of(name === "others" ? "two" : "one") };
    return [name, await connect(hostile(way), { rooms })];
  });
  const upstreams = Object.fromEntries(await Promise.all(opened));
  const { deaf, alike, others, reads } = upstreams as Record<keyof typeof uris, UpstreamConnection>;
  const long = { long: "x".repeat(2_000_000) };
  /** Abandons the call, whose arguments still wait for the program. */
  const leave = (upstream: UpstreamConnection): Promise<void> =>
    assert.rejects(upstream.callTool("any", long, { timeoutMs: 1 }), { code: "upstream_timeout" });
  try {
    for (const each of [deaf, alike, others]) await each.callTool("any", {});
    for (const each of [deaf, alike, others]) await leave(each);
    for (let calls = 0; calls < 5; calls++) await reads.callTool("twice", long, {});
    await leave(alike);
    const { reason, expected } = await deaf.closed;
    const why = "did not read its input when more than 5000000 bytes waited for the programs of its tenant";
    assert.deepEqual([reason, expected], [why, false]);
    // Parts that ended with it count no more, and neither do others.
    await leave(others);
    await reads.callTool("twice", long);
  } finally {
    await Promise.all(Object.values(upstreams).map((each) => each.close()));
  }
});

for (const way of ["pings without end", "pings and reads nothing", "asks without end"]) {
  test(`a program that ${way} is ended at the limit upstreamQuestions, and says so`, async (t) => {
    t.after(lower({ upstreamQuestions: 10 }));
    const mark = randomUUID();
    const options = { ask: () => new Promise<never>(() => {}) };
    const upstream = await connect(hostile(way, `&env.MARK=${mark}`), options);
    await assert.rejects(upstream.callTool("any", {}), {
      code: "upstream_ended",
      message: /it had more than 10 requests of its own in progress/,
    });
    const { reason, expected } = await upstream.closed;
    assert.deepEqual([/more than 10 requests/.test(reason), expected], [true, false]);
    assert.deepEqual(processesWith(mark), []);
  });
}

test("a program that sends a batch longer than upstreamBatchMessages is ended, and says so", async () => {
  const restore = lower({ upstreamBatchMessages: 50 });
  const upstream = await connect(hostile("sends a long batch"));
  assert.deepEqual((await upstream.callTool("49", {})).content, []);
  await assert.rejects(upstream.callTool("50", {}), {
    code: "upstream_ended",
    message: /it sent a batch of more than 50 messages/,
  });
  restore();
  const long = await connect(hostile("sends a long batch"));
  await assert.rejects(long.callTool("5000", {}), /a batch of more than 100 messages/);
});

test("a program may ask as often as it likes where it takes the answers", async (t) => {
  t.after(lower({ upstreamQuestions: 10 }));
  const upstream = await connect(hostile("pings and takes answers"));
  assert.equal((await upstream.callTool("any", {})).content[0]!["text"], "200 answers");
  await upstream.close();
});

test("a server that ignores the end of its input and SIGTERM is ended all the same", async (t) => {
  t.after(lower({ upstreamEndMs: 100 }));
  const mark = randomUUID();
  const upstream = await connect(hostile("ignores every ending", `&env.MARK=${mark}`));
  assert.equal(processesWith(mark).length, 1);
  await upstream.close();
  assert.deepEqual(processesWith(mark), []);
  assert.equal((await upstream.closed).reason, "was ended by SIGKILL");
});

test("what a server started and left behind is ended with it", async (t) => {
  const file = join(temporaryFolder(t), "pid");
  const mark = randomUUID();
  const upstream = await connect(hostile("leaves a child", `&arg=${file}&env.MARK=${mark}`));
  assert.ok(processesWith(mark).includes(Number(await readFile(file, "utf8"))));
  await upstream.close();
  assert.deepEqual(processesWith(mark), []);
});

for (const end of ["is closed", "dies"]) {
  test(`what a server started in a session of its own is gone when it ${end}`, async () => {
    const mark = randomUUID();
    const upstream = await connect(hostile("starts something apart", `&env.MARK=${mark}`));
    const apart = Number((await upstream.callTool("any", {})).content[0]!["text"]);
    const server = processesWith(mark).find((pid) => pid !== apart);
    await until(() => statOf(apart)?.session === apart && statOf(apart)?.parent !== server, "it runs apart");
    if (end === "dies") process.kill(server!, "SIGKILL");
    else await upstream.close();
    if (end === "dies") await until(() => processesWith(mark).length === 0, "nothing of it is left");
    assert.deepEqual(processesWith(mark), []);
  });
}

test("a server that is killed, floods or breaks the protocol in a call fails its calls clearly", async () => {
  const upstream = await connect(hostile("misbehaves in calls"));
  assert.equal((await upstream.callTool("echo", {})).content[0]!["text"], "fine");
  assert.deepEqual((await upstream.callTool("wrong", {})).content, [{ type: "text", text: "fine" }]);
  await assert.rejects(upstream.callTool("refuse", {}), {
    code: "upstream_refused",
    message: /calling refuse: Not like this \(-32602\)/,
    data: { rpc: -32602, message: "Not like this" },
  });
  const hanging = upstream.callTool("hang", {});
  const dying = upstream.callTool("die", {});
  await assert.rejects(dying, { code: "upstream_ended", message: /try again: calling die: it was ended by SIGKILL/ });
  await assert.rejects(hanging, { code: "upstream_ended" });
  const { expected, reason, stderr } = await upstream.closed;
  assert.deepEqual([expected, reason, stderr], [false, "was ended by SIGKILL", "Segmentation fault"]);
  const flooding = await connect(hostile("misbehaves in calls"));
  await assert.rejects(flooding.callTool("garbage", {}), {
    code: "upstream_ended",
    message: /it sent more than 1048576 bytes that are not messages/,
  });
  await Promise.all([upstream.close(), flooding.close()]);
});
