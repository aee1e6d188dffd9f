import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { atAnAddress } from "../support/at-an-address.ts";
import { modern, type Reply } from "../support/berth.ts";
import { openStream } from "../support/mcp-host.ts";
import { Nodes, NODES_TITLE } from "../support/nodes.ts";
import { inSuite } from "../support/suite.ts";
import { nameOf, WITH_TASKS } from "../support/task-offer.ts";
import { bearer, makeToken } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { fixtures } from "../support/upstreams.ts";

const ERAS = ["modern", "legacy"] as const;
const ADA = { action: "accept", content: { name: "Ada" } };
const UNKNOWN = -32602;
const GONE = /the Berth process that followed it at its upstream is gone, and its outcome is unknown/;

describe(`tasks of upstreams at ${NODES_TITLE}`, () => {
  const far = ERAS.map((era) => inSuite(() => atAnAddress("tasker.mjs", era)));
  const program = `mcp+node://${join(fixtures, "tasker.mjs")}?command=modern`;
  const nodes = inSuite(() =>
    Nodes.start({
      mcps: {
        modern: { upstream: far[0]!.uri },
        legacy: { upstream: far[1]!.uri },
        program: { upstream: program },
        everywhere: { upstream: program, runs: "everywhere" },
      },
      env: {
        BERTH_ACCESS: "required",
        BERTH_UPSTREAM_PROGRAMS: "on",
        // A node counts as gone soon.
        BERTH_NODE_LEASE_MS: "2000",
        BERTH_UPSTREAM_TASK_POLL_MS: "100",
      },
    }),
  );
  let mine: Record<string, string>;
  let others: Record<string, string>;
  before(async () => {
    const tokenOf = async (name: string) => bearer((await makeToken(nodes, { name, can: ["admin"] })).token);
    [mine, others] = [await tokenOf("mine"), await tokenOf("others")];
  });

  const next = (node: number): number => (node + 1) % nodes.urls.length;
  const at = (node: number, server: string): string => `${nodes.urls[node]}/mcp/${server}`;
  const through = (server: string): string => `${nodes.url}/mcp/${server}`;

  async function send(url: string, method: string, params: JsonObject, as = mine): Promise<Reply["body"]> {
    return (await modern(url, method, { _meta: WITH_TASKS, ...params }, { ...nameOf(params), ...as })).body;
  }
  async function begin(url: string, name: string): Promise<string> {
    const { result } = await send(url, "tools/call", { name, arguments: {} });
    assert.equal(result?.resultType, "task", JSON.stringify(result));
    return result.taskId as string;
  }
  const get = async (url: string, taskId: string): Promise<Reply["body"]> =>
    (await send(url, "tasks/get", { taskId })).result;
  const untilIs = (url: string, taskId: string, ...statuses: string[]): Promise<Reply["body"]> =>
    until(
      async () => {
        const task = await get(url, taskId);
        return statuses.includes(task.status) && task;
      },
      `the task is ${statuses.join(" or ")}`,
    );
  const over = (url: string, taskId: string) => untilIs(url, taskId, "completed", "failed", "cancelled");
  const failure = async (url: string, taskId: string): Promise<string> => {
    const { status, error } = await over(url, taskId);
    assert.equal(status, "failed");
    assert.equal(error.data.retriable, false, "it may have been carried out");
    return error.message as string;
  };

  const listen = (node: number, server: string, taskIds: string[], as: Record<string, string>) =>
    openStream(at(node, server), "subscriptions/listen", { _meta: WITH_TASKS, notifications: { taskIds } }, 1, as);
  /** The questions of a task, each answered. */
  const answersTo = ({ inputRequests }: Reply["body"]): JsonObject =>
    Object.fromEntries(Object.keys(inputRequests as object).map((key) => [key, ADA]));
  const answer = async (url: string, taskId: string): Promise<void> => {
    const inputResponses = answersTo(await untilIs(url, taskId, "input_required"));
    await send(url, "tasks/update", { taskId, inputResponses });
  };
  /** The requests of one method that the upstream has had for its tasks. */
  const seen = async (url: string, method: string): Promise<number> => {
    const { result } = await send(url, "tools/call", { name: "seen", arguments: {} });
    const all = JSON.parse(result.content[0].text as string) as { method: string; params: JsonObject }[];
    const isOfTask = ({ params }: { params: JsonObject }): boolean =>
      params["name"] !== "seen" && params["name"] !== "release";
    return all.filter((each) => each.method === method && isOfTask(each)).length;
  };
  const withoutNode = async (index: number, act: () => Promise<void>): Promise<void> => {
    await nodes.endNode(index, "SIGKILL");
    try {
      await act();
    } finally {
      await nodes.startNode(index);
    }
  };
  /** The node that runs the program. */
  const runner = (): Promise<number> =>
    until(async () => {
      for (const [index, url] of nodes.urls.entries()) {
        const { body } = await apiOf({ url }).send("GET", "/servers/program/upstream", undefined, mine);
        if (body.node?.isThis) return { index };
      }
      return undefined;
    }).then(({ index }) => index);

  for (const era of ERAS) {
    describe(`of a ${era} one at an address`, () => {
      it("are read at each node, answered and cancelled through another one", async () => {
        const first = 0;
        const working = await begin(at(first, era), "held");
        for (const node of nodes.urls.keys()) {
          await until(async () => (await get(at(node, era), working)).statusMessage === "step 1");
        }
        const before = await seen(through(era), "tasks/cancel");
        await send(at(next(first), era), "tasks/cancel", { taskId: working });
        await until(async () => (await seen(through(era), "tasks/cancel")) > before, "it is cancelled there");

        const asking = await begin(at(first, era), "asks");
        await answer(at(next(first), era), asking);
        const done = await over(through(era), asking);
        assert.equal(done.result?.content[0].text, "Hello, Ada!", JSON.stringify(done));

        const refusing = await begin(at(first, era), "asks");
        await untilIs(at(next(first), era), refusing, "input_required");
        await send(at(next(first), era), "tasks/cancel", { taskId: refusing });
        await until(async () => (await seen(through(era), "tasks/cancel")) > before + 1, "it is cancelled there, too");
        for (const taskId of [working, refusing]) {
          for (const node of nodes.urls.keys()) assert.equal((await get(at(node, era), taskId)).status, "cancelled");
        }
      });

      it("continue at another node when theirs is killed, with their ids, questions and listeners", async () => {
        const [first, other] = [0, 1];
        const calls = await seen(through(era), "tools/call");
        const [read, heard] = [await begin(at(first, era), "held"), await begin(at(first, era), "held")];
        const [asking, cancelled] = [await begin(at(first, era), "asks"), await begin(at(first, era), "never")];
        await untilIs(at(other, era), asking, "input_required");
        const stream = await listen(other, era, [heard], mine);
        assert.deepEqual((await stream.next()).params.notifications.taskIds, [heard]);
        await withoutNode(first, async () => {
          assert.equal((await get(at(other, era), read)).status, "working");
          await answer(at(other, era), asking);
          // It asks over its connection, and does so again over the next one.
          if (era === "legacy") await answer(at(other, era), asking);
          const answered = await over(at(other, era), asking);
          assert.equal(answered.result?.content[0].text, "Hello, Ada!", JSON.stringify(answered));
          const before = await seen(at(other, era), "tasks/cancel");
          await send(at(other, era), "tasks/cancel", { taskId: cancelled });
          assert.equal((await get(at(other, era), cancelled)).status, "cancelled");
          await until(async () => (await seen(at(other, era), "tasks/cancel")) > before, "it is cancelled there");
          assert.equal((await get(at(other, era), read)).status, "working");
          await send(at(other, era), "tools/call", { name: "release", arguments: {} });
          const done = await over(at(other, era), read);
          assert.equal(done.result?.content[0].text, "done", JSON.stringify(done));
          let told = (await stream.next()).params;
          while (told.status === "working") told = (await stream.next()).params;
          assert.deepEqual([told.taskId, told.status, told.result?.content[0].text], [heard, "completed", "done"]);
          stream.close();
          assert.equal(await seen(at(other, era), "tools/call"), calls + 4, "nothing is called again");
        });
        for (const taskId of [read, heard]) assert.equal((await get(at(first, era), taskId)).status, "completed");
      });
    });
  }

  it("are visible to their principal alone, at any node", async () => {
    const era = "modern";
    const [working, asking] = [await begin(at(0, era), "never"), await begin(at(0, era), "asks")];
    const inputResponses = answersTo(await untilIs(through(era), asking, "input_required"));
    for (const node of nodes.urls.keys()) {
      const url = at(node, era);
      const stream = await listen(node, era, [working, asking], others);
      assert.deepEqual((await stream.next()).params.notifications, {});
      stream.close();
      for (const taskId of [working, asking]) {
        for (const [method, more] of [
          ["tasks/get", {}],
          ["tasks/update", { inputResponses }],
          ["tasks/cancel", {}],
        ] as const) {
          const { error } = await send(url, method, { taskId, ...more }, others);
          assert.equal(error?.code, UNKNOWN, method);
        }
      }
    }
    assert.equal((await get(through(era), working)).status, "working");
    assert.equal((await get(through(era), asking)).status, "input_required");
    for (const taskId of [working, asking]) await send(through(era), "tasks/cancel", { taskId });
  });

  it("of a program are read, answered and cancelled through any node", async () => {
    for (const server of ["program", "everywhere"]) {
      for (const first of server === "program" ? nodes.urls.keys() : [1]) {
        const [asking, working] = [await begin(at(first, server), "asks"), await begin(at(first, server), "never")];
        await answer(at(next(first), server), asking);
        const done = await over(through(server), asking);
        assert.equal(done.result?.content[0].text, "Hello, Ada!", JSON.stringify(done));
        await send(at(next(first), server), "tasks/cancel", { taskId: working });
        await until(async () => (await seen(at(first, server), "tasks/cancel")) > 0, "it is cancelled there");
        assert.equal((await get(through(server), working)).status, "cancelled");
      }
    }
  });

  it("of a program fail with the reason when its node is killed, or the node that follows them", async () => {
    await begin(through("program"), "plain");
    const ran = await runner();
    const other = next(ran);
    const working = [await begin(at(ran, "program"), "never"), await begin(at(other, "program"), "never")];
    const asking = [await begin(at(ran, "program"), "asks"), await begin(at(other, "program"), "asks")];
    for (const taskId of asking) await untilIs(at(other, "program"), taskId, "input_required");
    await withoutNode(ran, async () => {
      for (const taskId of asking) await answer(at(other, "program"), taskId);
      assert.match(await failure(at(other, "program"), working[0]!), GONE);
      const ended = await failure(at(other, "program"), working[1]!);
      assert.match(ended, /^The upstream has ended.* may have been carried out/);
      for (const taskId of asking)
        assert.match(await failure(at(other, "program"), taskId), /the program that had its task has ended/);
    });

    await begin(through("program"), "plain");
    const now = await runner();
    const follower = next(now);
    const followed = await begin(at(follower, "program"), "never");
    const cancels = await seen(at(now, "program"), "tasks/cancel");
    await withoutNode(follower, async () => {
      assert.match(await failure(at(now, "program"), followed), GONE);
      await until(async () => (await seen(at(now, "program"), "tasks/cancel")) > cancels, "it is cancelled there");
    });
  });
});
