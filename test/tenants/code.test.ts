import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { readConfig } from "../../src/config.ts";
import { apiOf } from "../support/api.ts";
import { call, callText, post, request, withStatus } from "../support/berth.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite, serverInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { fixtures } from "../support/upstreams.ts";

const CODE = `
export function count(): number { return 1; }
export async function get(url: string): Promise<string> { return fetch(url).then((r) => r.text(), (error) => error.message); }
`;
const SCRIPT = "#!/bin/sh\necho hello\n";
const secretive = `mcp+node://${join(fixtures, "secretive.mjs")}`;

describe("code of tenants", () => {
  let reached = 0;
  const inside = serverInSuite((_request, response) => {
    reached++;
    response.end("inside");
  });
  let port = "";
  const entries = () => {
    const network = [`127.0.0.1:${port}`, `localhost:${port}`, `*:${port}`];
    const secrets = ["API_TOKEN"];
    return {
      code: { secrets, network },
      local: { upstream: `${secretive}?env.KEY=%24%7BAPI_TOKEN%7D`, secrets },
      package: { upstream: "mcp+npx://left-pad" },
      environment: { upstream: `mcp+https://example.org/mcp?header.Authorization=%24%7BHOME%7D` },
      remote: { upstream: `mcp+http://127.0.0.1:${port}/mcp` },
      named: { upstream: `mcp+http://localhost:${port}/mcp` },
    };
  };
  const berth = berthInSuite(() => {
    ({ port } = new URL(inside.url));
    return {
      texts: { "code.ts": CODE },
      mcps: { code: { definition: "code.ts", ...entries().code } },
      env: { BERTH_TENANT_UPSTREAMS: "umbrella", BERTH_UPSTREAM_PROGRAMS: "on" },
    };
  });
  const api = (at: string) => apiOf({ url: berth.url + at });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      const tenant = { servers: { code: CODE }, variables: { mcps: JSON.stringify(entries()) } };
      for (const name of ["acme", "umbrella"]) await addTenant(store, name, tenant);
    });
    for (const at of ["", "/t/acme", "/t/umbrella"])
      assert.equal((await api(at).put("/secrets/API_TOKEN", `the secret of ${at}`)).status, 204);
  });

  const ask = (at: string, server: string, tool: string, args = {}): Promise<string> =>
    callText(`${berth.url}${at}/mcp/${server}`, tool, args);
  interface Summary {
    readonly name: string;
    readonly state: string;
    readonly problems: { code: string; message: string }[];
  }
  const summaryOf = async (at: string, server: string): Promise<Summary> =>
    ((await api(at).send("GET", "/servers")).body.servers as Summary[]).find(({ name }) => name === server)!;

  it("a tenant that is not the operator's reaches no address of this machine, whatever its entry names (C8)", async () => {
    const url = `http://127.0.0.1:${port}/`;
    assert.equal(await ask("", "code", "get", { url }), "inside");
    const before = reached;
    for (const host of ["127.0.0.1", "localhost", "[::1]", "2130706433"]) {
      const said = await ask("/t/acme", "code", "get", { url: url.replace("127.0.0.1", host) });
      assert.match(said, /may not be reached: it has no public address/, host);
    }
    assert.equal(reached, before);
    const { state, problems } = await summaryOf("/t/acme", "code");
    assert.equal(state, "ready");
    assert.ok(problems.some(({ code }) => code === "private-address"));
  });

  it("nor does a remote server of its, by address or by name (C8)", async () => {
    const before = reached;
    for (const server of ["remote", "named"]) {
      assert.match(await ask("/t/acme", server, "any"), /may not be reached: it has no public address/);
    }
    assert.equal(reached, before);
  });

  it("programs of others are started for a tenant when the operator says so, and are refused otherwise (C8)", async () => {
    for (const server of ["local", "package"]) {
      const { state, problems } = await summaryOf("/t/acme", server);
      assert.equal(state, "refused");
      assert.match(problems[0]!.message, /may not start upstream programs.*BERTH_TENANT_UPSTREAMS/);
      assert.match(await ask("/t/acme", server, "tell"), /may not start upstream programs/);
    }
    assert.equal(await ask("/t/umbrella", "local", "tell"), "the secret of /t/umbrella");
  });

  it("the environment of the service is nothing to a tenant's servers: only secrets stand for ${NAME} (C8)", async () => {
    const { state, problems } = await summaryOf("/t/acme", "environment");
    assert.equal(state, "refused");
    assert.deepEqual(rows(problems, "code"), ["undeclared-secret"]);
    assert.match(problems[0]!.message, /\$\{HOME\} is not a secret of this server; add "HOME" to "secrets"/);
  });

  it("an edit that a tenant may not have is refused, with the reason (C8)", async () => {
    const entry = JSON.stringify({ upstream: "mcp+python:///etc/evil.py" });
    const { body } = await withStatus(422, api("/t/acme").put("/entries/evil", entry));
    assert.match(body.error.message, /may not start upstream programs/);
  });
});

describe("code of tenants where there is no sandbox", () => {
  const berth = berthInSuite({ texts: { "code.ts": CODE, "script.sh": SCRIPT }, env: { BERTH_GUESTS: "trusted" } });
  before(async () => {
    await onStoreOf(berth, async (store) => {
      const mcps = JSON.stringify({ written: { resources: { note: { uri: "note://a", text: "a text" } } } });
      await addTenant(store, "acme", { servers: { code: CODE, script: SCRIPT }, variables: { mcps } });
    });
  });

  it("runs for the operator's own tenant alone; every other server is refused, with what to do (C8)", async () => {
    const own = await call(`${berth.url}/mcp/code`, "count");
    assert.equal(own.structuredContent.result, 1);
    for (const server of ["code", "script"]) {
      const { body } = await withStatus(503, post(`${berth.url}/t/acme/mcp/${server}`, request("tools/list")));
      assert.match(body.error.message, /the tenant "acme" runs in the sandbox or not at all, and this Berth has none/);
      assert.match(body.error.message, /turned off by BERTH_GUESTS=trusted; start Berth with auto or sandboxed/);
    }
    const page = await (await fetch(`${berth.url}/t/acme/mcp/meta/code`, { headers: { Accept: "text/html" } })).text();
    assert.match(page, /runs in the sandbox or not at all/);
  });

  it("does not keep a server without code from being served (C8)", async () => {
    const { body } = await post(`${berth.url}/t/acme/mcp/written`, request("resources/read", { uri: "note://a" }), {
      "MCP-Protocol-Version": "2025-06-18",
    });
    assert.equal(body.result.contents[0].text, "a text");
  });
});

it("BERTH_TENANT_UPSTREAMS is off, on, or names of tenants (C8)", () => {
  const read = (value: string) => readConfig({ BERTH_TENANT_UPSTREAMS: value }).tenantUpstreams;
  for (const off of ["", "off"]) assert.deepEqual(read(off), []);
  assert.equal(read("on"), "all");
  assert.deepEqual(read("acme, umbrella"), ["acme", "umbrella"]);
  assert.throws(() => read("On"), /BERTH_TENANT_UPSTREAMS must be off, on or names of tenants/);
});
