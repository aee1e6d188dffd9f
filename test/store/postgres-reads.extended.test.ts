import assert from "node:assert/strict";
import { before, beforeEach, describe, it, mock } from "node:test";
import { Client } from "pg";
import { packDefinition } from "../../src/image/definition.ts";
import { jsonBlock } from "../../src/lib/cid.ts";
import { call, modern } from "../support/berth.ts";
import { keysOfAll, startPostgres } from "../support/postgres.ts";
import { berthInSuite, inSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const KIT = `import type { ToolContext } from "berth";
export const plain = (): string => "hello";
export const variable = ({ variable }: ToolContext): Promise<string | undefined> => variable("greeting");
export const get = ({ state }: ToolContext): Promise<unknown> => state.get("key").then(String);
export const set = (value: string, { state }: ToolContext): Promise<number> => state.set("key", value);
`;
const SCRIPT = "#!/bin/bash\n# Says hello.\necho hello\n";
const SERVERS = 60;
const FILES = 20;

/** The texts that this process sends to Postgres: one statement or several in one message, which is a round trip. */
const queries = mock.method(Client.prototype, "query");
const sent = (): string[] =>
  queries.mock.calls.map(({ arguments: [first] }: { arguments: unknown[] }) =>
    typeof first === "string" ? first : (first as { text: string }).text,
  );

/** Which of them look for changes, and give a sign of life: each node does that all the time, whatever it serves. */
const isBackground = (sql: string): boolean =>
  /pg_walfile_name|FROM name_change WHERE id|\b(node|lease|letter)\b|audit|^LISTEN/.test(sql);

describe("what a node asks Postgres for", () => {
  const postgres = inSuite(startPostgres);
  let database: string;
  before(async () => void (database = await postgres.database()));
  const berth = berthInSuite(() => ({
    texts: { "kit.ts": KIT, "script.sh": SCRIPT },
    variables: { greeting: "hello" },
    env: { BERTH_DATABASE: database, ...keysOfAll(), BERTH_NODE_LEASE_MS: "600000" },
  }));
  beforeEach(() => queries.mock.resetCalls());

  const asked = (): string[] => sent().filter((sql) => !isBackground(sql));

  async function warm(act: () => Promise<unknown>): Promise<string[]> {
    for (let times = 0; times < 2; times++) await act();
    queries.mock.resetCalls();
    for (let times = 0; times < 3; times++) await act();
    return asked();
  }

  it("is nothing for warm calls and lists, of TypeScript and of shell, in both eras", async () => {
    for (const [server, tool] of [
      ["kit", "plain"],
      ["script", "script"],
    ] as const) {
      const url = `${berth.url}/mcp/${server}`;
      assert.deepEqual(
        await warm(async () => {
          assert.match((await call(url, tool)).content[0].text, /^hello/);
          assert.equal((await modern(url, "tools/list")).status, 200);
          assert.equal((await modern(url, "tools/call", { name: tool, arguments: {} })).status, 200);
        }),
        [],
        server,
      );
    }
  });

  it("is one statement for a value of state, two for a variable, and one transaction of four round trips for a write", async () => {
    const url = `${berth.url}/mcp/kit`;
    assert.equal((await warm(() => call(url, "get"))).length, 3 * 1);
    assert.equal((await warm(() => call(url, "variable"))).length, 3 * 2);
    assert.equal((await warm(() => call(url, "set", { value: "v" }))).length, 3 * 4);
  });

  it("takes three round trips for a tenant that it opens, and five for a server, however many servers and files it has", async () => {
    const servers = Object.fromEntries(
      Array.from({ length: SERVERS }, (_, index) => [`server-${index}`, `export const n = (): number => ${index};\n`]),
    );
    const parts = Array.from({ length: FILES }, (_, index) => `part-${index}.ts`);
    const files = Object.fromEntries(parts.map((part, index) => [part, `export const part = ${index};\n`]));
    const imports = parts.map((part, index) => `import { part as part${index} } from "./${part}";\n`);
    const sum = parts.map((_, index) => `part${index}`).join(" + ");
    files["all.ts"] = `${imports.join("")}export const sum = (): number => ${sum};\n`;
    const definition = packDefinition("all.ts", files);
    const record = jsonBlock({ definition: definition.cid, enabled: true });
    await onStoreOf({ folder: berth.folder, database }, async (store) => {
      await addTenant(store, "acme", { servers, variables: { mcps: "{}" } });
      const hidden = jsonBlock({ hidden: ["none"] });
      const set = Object.keys(servers).map((name) => ({ kind: "visibility", name, cid: hidden.cid }) as const);
      await store.change("acme", {
        by: "test",
        put: [...definition.blocks, record, hidden],
        set: [...set, { kind: "server", name: "all", cid: record.cid }],
      });
    });
    const url = `${berth.url}/t/acme/mcp`;
    assert.equal((await modern(`${url}/all`, "tools/list")).status, 200);
    // It is compiled and recorded now; a tenant that was ended is opened like one that never was.
    await onStoreOf({ folder: berth.folder, database }, async ({ tenants }) => {
      await tenants.change("acme", { by: "test", suspended: true });
      await until(async () => (await modern(`${url}/all`, "tools/list")).status === 403);
      await tenants.change("acme", { by: "test", suspended: false });
    });
    queries.mock.resetCalls();
    await until(async () => (await modern(`${url}/missing`, "tools/list")).status === 404);
    // The tenant's own record is read whenever its change is heard of.
    const others = (): string[] => asked().filter((sql) => !sql.includes("tenant_host"));
    assert.equal(others().length, 2, others().join("\n"));
    queries.mock.resetCalls();
    assert.equal((await modern(`${url}/all`, "tools/list")).status, 200);
    assert.equal(others().length, 5, others().join("\n"));
  });
});
