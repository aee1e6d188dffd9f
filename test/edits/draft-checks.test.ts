import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DraftQuota } from "../../src/edits/draft-checks.ts";
import { apiOf } from "../support/api.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const say = (text: string): string =>
  `/** Says it. */\nexport function say(): string { return ${JSON.stringify(text)}; }\n`;

describe("the drafts of saves and reviews under way", () => {
  const limits = { draftBytes: 100, draftBytesPerTenant: 60 };
  const draft = (length: number) => ({ entry: "", files: { "": "x".repeat(length) } });

  it("are counted by number and by length, of each tenant and of all, until they are answered", async (t) => {
    t.after(lower({ draftsPerTenant: 2 }));
    const room = new DraftQuota(limits);
    const answers: (() => void)[] = [];
    const hold = (tenant: string, length: number) =>
      room.hold(tenant, draft(length), () => new Promise<void>((resolve) => answers.push(resolve)));
    const long = hold("acme", 1_000);
    await assert.rejects(hold("acme", 1), { code: "too_many_requests", message: /60 characters in this tenant/ });
    await assert.rejects(hold("other", 1), { code: "too_many_requests", message: /drafts of 100 characters/ });
    answers.pop()!();
    await long;
    const short = [hold("acme", 10), hold("acme", 10)];
    await assert.rejects(hold("acme", 0), { code: "too_many_requests", message: /2 saves and reviews/ });
    const other = hold("other", 60);
    for (const answer of answers) answer();
    await Promise.all([...short, other]);
    const last = hold("acme", 60);
    answers.pop()!();
    await last;
  });

  const berth = berthInSuite({ texts: { "say.ts": say("hello") }, env: { BERTH_DRAFT_BYTES_PER_TENANT: "5000" } });
  const api = apiOf(berth);

  it("are refused beyond that, and there is room again when those before are answered or given up", async () => {
    const review = (name: string) => api.send("POST", `/definitions/${name}/review`, say("x".repeat(3_000)));
    const replies = await Promise.all([review("a"), review("b"), review("c")]);
    assert.deepEqual(rows(replies, "status").sort(), ["200", "429", "429"]);
    const leaving = new AbortController();
    const url = `${berth.url}/api/definitions/d/review`;
    const headers = { "Content-Type": "text/plain" };
    const left = fetch(url, { method: "POST", headers, body: say("y".repeat(3_000)), signal: leaving.signal });
    leaving.abort();
    await assert.rejects(left);
    await until(async () => (await review("e")).status === 200);
  });
});
