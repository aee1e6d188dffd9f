import { jsonBlock, rawBlock } from "../../dist/src/lib/cid.js";
import { apiOf } from "../../dist/test/support/api.js";
import { call, startTestBerth } from "../../dist/test/support/berth.js";
import { changing, tool } from "../../dist/test/support/hosted-upstreams.js";
import { startTestRegistry } from "../../dist/test/support/registry.js";
import { addTenant, onStoreOf } from "../../dist/test/support/tenants.js";
import { until } from "../../dist/test/support/until.js";
import { BROKEN, LIBRARY, MAIL, MANY, ORDERS, PACKAGED, PARTLY, SMALL, WEATHER } from "./definitions.mjs";

const SLUGS = {
  name: "slugs",
  version: "2.1.0",
  manifest: { type: "module", main: "index.js", types: "index.d.ts", dependencies: { letters: "^1.0.0" } },
  files: {
    "index.js": 'import { lower } from "letters";\nexport const slug = (text) => lower(text).replace(/\\W+/g, "-");\n',
    "index.d.ts": "export declare function slug(text: string): string;\n",
  },
};
const LETTERS = {
  name: "letters",
  version: "1.4.2",
  manifest: { type: "module", main: "index.js" },
  files: { "index.js": "export const lower = (text) => text.toLowerCase();\n" },
};
/** The tenant that has packages of its own, and the one that has many servers. */
export const TENANT = "acme";
export const LARGE = "globex";
export const EMPTY = "initech";

/**
 * Berths with servers as people have them: of every kind and in every state, with variables, secrets, state, packages,
 * records and releases.
 */
export async function startContents() {
  const ends = [];
  const t = { after: (end) => void ends.push(end) };
  const registry = await startTestRegistry(LETTERS, SLUGS);
  const pay = [tool("charge", "Charges a card.", "card", "amount"), tool("refund", "Pays back a charge.", "charge")];
  const payments = changing(t, pay);
  const berth = await startTestBerth({
    files: ["reference_templates/echo.ts", "reference_templates/checksum.sh"],
    texts: {
      "library.ts": LIBRARY,
      "orders.ts": ORDERS,
      "words.ts": PARTLY,
      "weather.ts": WEATHER,
      "mail.ts": MAIL,
    },
    mcps: {
      library: {
        definition: "library.ts",
        description: "The books of our library, and who has borrowed them",
        retain_calls: "7d",
      },
      orders: { definition: "orders.ts", description: "Orders of the shop", limits: { calls_per_second: 20 } },
      mail: { definition: "mail.ts", description: "Sends mail to customers", secrets: ["SMTP_PASSWORD"] },
      archive: { definition: "echo.ts", enabled: false, description: "The old one, kept for reference" },
      payments: { upstream: payments.uri, description: "Cards and refunds, by the payment provider" },
      tickets: {
        upstream: "mcp+http://127.0.0.1:49151/mcp",
        description: "The ticket system",
        secrets: ["TICKETS_TOKEN"],
      },
    },
    variables: {
      greeting: "Welcome to our library!\n",
      "opening-hours.json": '{ "weekdays": "9-18", "saturday": "10-14" }\n',
    },
    env: {
      BERTH_AUDIT: "all",
      BERTH_AUDIT_DELAY_MS: "5",
      BERTH_UPSTREAM_PROGRAMS: "on",
      BERTH_REGISTRY: registry.url,
      BERTH_TENANT_PACKAGES: TENANT,
      BERTH_SAVES_PER_MINUTE_PER_TENANT: "0",
      BERTH_REVIEWS_PER_MINUTE_PER_TENANT: "0",
    },
  });
  const guarded = await startTestBerth({ texts: { "own.ts": SMALL }, env: { BERTH_ACCESS: "required" } });
  await onStoreOf(berth, async (store) => {
    // No edit saves what cannot be served; what came with an earlier version may stand there.
    const definition = rawBlock(BROKEN);
    const record = jsonBlock({ definition: definition.cid, enabled: true });
    const set = [{ kind: "server", name: "currency", cid: record.cid }];
    await store.change("default", { by: "ada", put: [definition, record], set });
    await addTenant(store, TENANT);
    await addTenant(store, EMPTY);
    await addTenant(store, LARGE, { servers: Object.fromEntries(MANY.map((name) => [name, SMALL])) });
  });
  await fill(berth, payments, pay);
  return {
    berth,
    guarded,
    async close() {
      await Promise.all([berth.close(), guarded.close(), registry.close()]);
      for (const end of ends) end();
    },
  };
}

/** Does what people and programs do in a day. */
async function fill(berth, payments, pay) {
  const api = apiOf(berth);
  const { url } = berth;
  const done = async (answer) => {
    const { status, body } = await answer;
    if (status >= 400) throw new Error(`${status}: ${JSON.stringify(body)}`);
  };
  const anyway = { "Berth-Allow-Breaking": "true" };
  const perhapsMany = ORDERS.replace("customer: string): Order[]", "customer: string, limit = 20): Order[]");
  await done(api.put("/definitions/orders", perhapsMany));
  await done(
    api.put(
      "/definitions/orders",
      perhapsMany.replace("cancelOrder(id: number)", "cancelOrder(id: number, reason: string)"),
      anyway,
    ),
  );
  await done(api.put("/variables/greeting", "Welcome to our library!\nWe are open today.\n"));
  await done(api.send("PUT", "/secrets/TICKETS_TOKEN", "not the real one"));
  for (let time = 0; time < 12; time++)
    await call(`${url}/mcp/library`, "search", { query: time % 3 ? "a" : "cities" });
  for (const isbn of ["9780141439518", "9780156027328", "1"])
    await call(`${url}/mcp/library`, "borrow", { isbn, reader: "Ada" });
  await call(`${url}/mcp/orders`, "listOrders", { customer: "Ada Lovelace" });
  await call(`${url}/mcp/orders`, "cancelOrder", { id: 7, reason: "twice" });
  await call(`${url}/mcp/orders`, "cancelOrder", { id: "seven" });
  await call(`${url}/mcp/echo`, "echo", { message: "hello" });
  await call(`${url}/mcp/mail`, "send", { to: "ada@example.org", subject: "Hello", text: "It is due." });
  await call(`${url}/mcp/payments`, "refund", { charge: "ch_1" });
  payments.offer([tool("charge", "Charges a card, and keeps its number.", "card", "amount", "email"), ...pay.slice(1)]);
  await until(async () => (await (await fetch(`${url}/mcp`)).text()).includes("needs review"));
  // It cannot be reached, which is known once somebody has tried.
  await call(`${url}/mcp/tickets`, "list").catch(() => undefined);
  const acme = { url: `${url}/t/${TENANT}` };
  await done(apiOf(acme).send("POST", "/packages", { add: ["slugs@^2"] }));
  await done(apiOf(acme).put("/definitions/slugs", PACKAGED));
}
