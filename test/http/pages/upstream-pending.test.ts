import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContractChange } from "../../../src/contract/change.ts";
import type { Contract, ToolContract } from "../../../src/contract/contract.ts";
import { openAssets } from "../../../src/http/assets.ts";
import { Fragment } from "../../../src/http/pages/fragment.ts";
import { createPages } from "../../../src/http/pages/pages.ts";
import { upstreamView } from "../../../src/http/pages/server-tabs/upstream.ts";
import { rows } from "../../support/rows.ts";

interface Shown {
  readonly name: string;
  readonly diff: readonly { readonly change: string; readonly text: string }[];
}

/** The rendering of a server's pending tools on its page. */
async function pendingOf(tools: readonly ToolContract[]): Promise<{ shown: Shown[]; more: string; fragments: number }> {
  const observed: Contract = { tools, resources: [], resourceTemplates: [], prompts: [] };
  const approved: Contract = {
    ...observed,
    tools: tools.map((tool) => Object.assign({}, tool, { description: "Old." })),
  };
  const changes = tools.map(({ name }): ContractChange => ({
    subject: "tool",
    name,
    effect: "review",
    message: "Other.",
  }));
  const shown: Shown[] = [];
  const fragment = (partial: string, items: Iterable<object>): Promise<Fragment> => {
    assert.equal(partial, "pending");
    shown.push(...(items as Iterable<Shown>));
    return Promise.resolve(new Fragment(Buffer.from("")));
  };
  const health = { state: "running" as const, starts: 1, requests: 0 };
  const pending = { contract: "a-cid", changes, approved, observed };
  const upstream = { name: "s", launcher: "node", health, pending, stderr: "" };
  const { view, fragments } = await upstreamView({ fragment }, "", "s", upstream, true);
  return { shown, more: (view as { pending: { more: string } }).pending.more, fragments: fragments.length };
}

const tool = (name: string, properties: object = {}): ToolContract => ({
  name,
  description: "New.",
  inputSchema: { type: "object", properties },
});

describe("what the page of a hosted server shows of what waits for a person", () => {
  it("is each tool with its lines before and now, made piece by piece", async () => {
    const { shown, more, fragments } = await pendingOf([tool("one"), tool("two")]);
    assert.deepEqual([shown.map(({ name }) => name), more, fragments], [["one", "two"], "", 1]);
    const changed = shown[0]!.diff.filter(({ change }) => change !== "same");
    assert.deepEqual(rows(changed, "change", "text"), [
      "hunk @@ -1,5 +1,5 @@",
      'removed -  "description": "Old.",',
      'added +  "description": "New.",',
    ]);
  });

  it("is no more than the first things that have changed, and how many more there are", async () => {
    const { shown, more } = await pendingOf(Array.from({ length: 300 }, (_, at) => tool(`tool-${at}`)));
    assert.equal(shown.length, 200);
    assert.match(more, /^There are 100 more changes: GET \/api\/servers\/s\/upstream /);
  });

  it("compares no tool line by line that is long", async () => {
    const names = Array.from({ length: 3_000 }, (_, at): [string, object] => [`name${at}`, { type: "string" }]);
    const { shown } = await pendingOf([tool("long", Object.fromEntries(names)), tool("short")]);
    const beginnings = shown.map(({ diff }) => diff[0]!.text.slice(0, 8));
    assert.deepEqual(beginnings, ["Too long", "@@ -1,5 "]);
  });
});

it("the page of a hosted server shows how its messages deviate from the protocol, escaped, ten kinds at most", async () => {
  const pages = createPages(openAssets());
  const shown = async (deviations?: readonly { what: string; count: number }[]): Promise<string> => {
    const health = { state: "running" as const, starts: 1, requests: 0, ...(deviations && { deviations }) };
    const upstream = { name: "s", launcher: "node", health, stderr: "" };
    return String(pages.html("upstream", (await upstreamView(pages, "", "s", upstream, true)).view));
  };
  assert.doesNotMatch(await shown(), /Deviates/);
  const kinds = Array.from({ length: 10 }, (_, at) => ({ what: `kind ${at}`, count: 1 }));
  const page = await shown([{ what: 'answers with <b>"null"</b>\n\u202e', count: 1_200 }, ...kinds]);
  const lines = Array.from(page.matchAll(/<dt>Deviates<\/dt><dd>([^]*?)<\/dd>/g), ([, line]) => line);
  const quoted = "answers with &lt;b&gt;&quot;null&quot;&lt;/b&gt;\ufffd\ufffd (1,200 times)";
  assert.deepEqual(lines, [quoted, ...kinds.slice(0, 9).map(({ what }) => `${what} (1 time)`)]);
});
