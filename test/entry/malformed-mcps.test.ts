import assert from "node:assert/strict";
import { it } from "node:test";
import handlebars from "handlebars";
import { pino } from "pino";
import { rawBlock } from "../../src/lib/cid.ts";
import { logOptions } from "../../src/lib/log.ts";
import { call, startTestBerth } from "../support/berth.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

it("malformed mcps that stand in the store serve nothing, and are told in the log and on the page (T1.4)", async (t) => {
  const lines: string[] = [];
  const log = pino(logOptions("warn", []), { write: (line: string) => void lines.push(line) });
  const texts = { "hello.ts": `export function hello(): string { return "hello"; }\n` };
  const berth = await startTestBerth({ texts, log });
  t.after(() => berth.close());
  const url = `${berth.url}/mcp/hello`;
  assert.equal((await call(url, "hello")).content[0].text, "hello");
  // No edit can cause this: Berth refuses such a value.
  const value = rawBlock('{ "hello": ');
  const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
  await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [value], set }));
  const line = await until(() => lines.find((line) => line.includes("the mcps variable has a problem")));
  const { problem } = JSON.parse(line) as { problem: { message: string } };
  assert.match(problem.message, /mcps/);
  const page = await (await fetch(`${berth.url}/mcp`, { headers: { Accept: "text/html" } })).text();
  assert.ok(page.includes(handlebars.escapeExpression(problem.message)), problem.message);
  assert.equal((await call(url, "hello")).error.code, -32602);
});
