import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { connectRaw } from "../support/raw-http.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf, type NewTenant } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const GREET = `/** Greets somebody. */
export function greet(who: string): string {
  return "Hello, " + who + "!";
}

/** Leads to another function. */
export function elsewhere(): Response {
  return new Response(null, { status: 303, headers: { location: "/servers/greet/greet?who=you" } });
}
`;
const ACME: NewTenant = {
  servers: { greet: GREET, broken: "export function (" },
  variables: { motto: "onwards", mcps: JSON.stringify({ greet: { description: "Greets" } }) },
  hosts: ["acme.localhost"],
};

/** Berth as a person of one tenant sees it; nothing on any page leads to another tenant. */
describe("the pages of a tenant", () => {
  let base: string;
  const berth = berthInSuite({ texts: { "greet.ts": GREET }, variables: { motto: "backwards" } });
  before(async () => {
    await onStoreOf(berth, (store) => addTenant(store, "acme", ACME));
    base = `${berth.url}/t/acme`;
    const saved = await apiOf({ url: base }).put("/definitions/greet", GREET.replace("Hello", "Good day"));
    assert.equal(saved.status, 200);
  });

  it("redirect within the tenant, and give its addresses (C8)", async () => {
    const get = (path: string, accept = "text/html") =>
      fetch(`${base}${path}`, { redirect: "manual", headers: { Accept: accept } });
    const leadsTo = async (path: string, accept?: string) => (await get(path, accept)).headers.get("location");
    assert.equal(await leadsTo("/"), "/t/acme/mcp");
    assert.equal(await leadsTo(""), "/t/acme/mcp");
    assert.equal(await leadsTo("/mcp/greet"), "/t/acme/mcp/meta/greet");
    assert.equal(await leadsTo("/servers?name=greet"), "/t/acme/servers/greet");
    assert.equal(await leadsTo("/variables?name=motto"), "/t/acme/variables/motto?new");
    assert.equal(await leadsTo("/servers/greet/elsewhere?", "*/*"), "/t/acme/servers/greet/greet?who=you");
    const { servers } = (await (await get("/api/servers", "application/json")).json()) as {
      servers: { url: string }[];
    };
    assert.deepEqual(rows(servers, "url"), ["/t/acme/mcp/broken", "/t/acme/mcp/greet"]);
    const missing = await (await get("/mcp/meta/gret")).text();
    assert.match(missing, /href="\/t\/acme\/mcp\/meta\/greet"/, "what was meant, of this tenant");
    assert.match(missing, /\/t\/acme\/mcp\/meta\/gret/, "the address as it was asked for");
  });

  it("name no address outside of /t/<tenant> (C8)", async () => {
    const seen = new Set<string>();
    const queue = ["/mcp", "/mcp/meta/greet", "/servers/greet", "/variables/motto", "/variables?name=new"];
    for (const start of queue) {
      const path = start.startsWith("/t/") ? start : `/t/acme${start}`;
      if (seen.has(path)) continue;
      seen.add(path);
      const response = await fetch(`${berth.url}${path}`, { headers: { Accept: "text/html" } });
      const html = await response.text();
      assert.ok(response.status < 500, `${path}: ${response.status}`);
      for (const address of addressesIn(html)) {
        assert.match(address, /^(?:\/t\/acme(?:\/|$)|\/assets\/)/, `on ${path}`);
        if (!/^\/assets\/|\?raw$/.test(address)) queue.push(address.replace(/#.*$/, ""));
      }
    }
    assert.ok(seen.size > 10, [...seen].join(" "));
    for (const part of ["/cid/", "/mcp/meta/greet@", "/servers?", "/variables/mcps"]) {
      const isSeen = [...seen].some((path) => path.startsWith(`/t/acme${part}`));
      assert.ok(isSeen, part);
    }
  });

  it("have no prefix at the tenant's host name, and set no cookie (C8)", async () => {
    const { port } = new URL(berth.url);
    for (const [host, address] of [
      [`acme.localhost:${port}`, `http://acme.localhost:${port}/mcp/greet`],
      [`127.0.0.1:${port}`, `${base}/mcp/greet`],
    ] as const) {
      const path = host.startsWith("acme") ? "" : "/t/acme";
      const lines = [`GET ${path}/mcp/meta/greet?tab=connect HTTP/1.1`, `Host: ${host}`, "Accept: text/html"];
      // Another process added the tenant: its names are known a moment later.
      const page = await until(async () => {
        const connection = await connectRaw(berth.url);
        connection.socket.write([...lines, "Connection: close", "", ""].join("\r\n"));
        const answer = await connection.closed;
        return answer.startsWith("HTTP/1.1 403") ? undefined : answer;
      });
      assert.match(page, new RegExp(`claude mcp add --transport http greet ${address}<`));
      assert.doesNotMatch(page, /^Set-Cookie/im);
    }
  });
});

/** Every address of this service on a page: in links, forms, scripts, and data for scripts. */
function addressesIn(html: string): string[] {
  const attributes = html.matchAll(/ (?:href|src|action|data-(?!base|copy)[\w-]+)="(\/[^"]*)"/g);
  const inSetups = html.matchAll(/"(?:api|href|url|endpoint|path)":"(\/[^"]*)"/g);
  return [...attributes, ...inSetups].map(([, address]) => address!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "="));
}
