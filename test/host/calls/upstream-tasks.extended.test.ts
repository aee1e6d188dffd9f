import assert from "node:assert/strict";
import { test } from "node:test";
import { host, hostedServer } from "../../support/hosted-upstreams.ts";
import { taskClient } from "../../support/task-offer.ts";
import { everything } from "../../support/upstreams.ts";

test("server-everything does its research as a task, and asks what was meant", async (t) => {
  const berth = await host(t, { every: { upstream: everything } });
  const server = hostedServer(berth, "every");
  const client = taskClient(server.url);
  const { taskId } = await client.begin("simulate-research-query", { topic: "python", ambiguous: true });
  const asking = await client.over(taskId);
  assert.equal(asking.status, "input_required");
  const [key] = Object.keys(asking.inputRequests);
  const inputResponses = { [key!]: { action: "accept", content: { interpretation: "snake" } } };
  await client.send("tasks/update", { taskId, inputResponses });
  const { status, result } = await client.over(taskId);
  assert.equal(status, "completed");
  assert.match(result.content[0].text, /Research Report: python \(snake\)/);
  assert.match(await server.call("simulate-research-query", { topic: "Berth" }), /Research Report: Berth/);
});
