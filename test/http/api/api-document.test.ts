import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { post, withStatus } from "../../support/berth.ts";
import { allRoutes } from "../../support/routes.ts";
import { berthInSuite } from "../../support/suite.ts";

const document = readFileSync(join(packageRoot, "docs", "api.md"), "utf8");

/** Each request at the beginning of a list item, by its address; the items for any subject stand for variables. */
const documented = new Map<string, Set<string>>();
for (const [, method = "", path = ""] of document.matchAll(/^- `([A-Z]+) ([^?`]+)/gm)) {
  const address = path.replace("…/<name>", "/api/variables/<name>");
  documented.set(address, (documented.get(address) ?? new Set()).add(method));
}

describe("the document of the JSON API", () => {
  const berth = berthInSuite({ texts: { "own.ts": "export function own(): void {}" } });

  it("names the requests that each address takes, and no others", async () => {
    for (const [address, methods] of documented) {
      const url = berth.url + address.replaceAll(/<\w+>/g, "own");
      const response = await fetch(url, { method: "PATCH" });
      assert.equal(response.status, 405, address);
      const allowed = response.headers
        .get("allow")!
        .split(", ")
        .filter((method) => method !== "HEAD");
      assert.deepEqual(allowed.sort(), [...methods].sort(), address);
    }
  });

  it("leaves no address out", () => {
    const shapeOf = (address: string): string => address.replaceAll(/<\w+>|:\w+/g, "*").replace(/\/$/, "");
    const named = new Set([...documented.keys()].map(shapeOf));
    for (const [path, { stack }] of allRoutes) {
      for (const { route } of stack) {
        const likewise = path.replace(/^\/(?:definitions|entries)$/, "/variables");
        assert.ok(named.has(shapeOf(`/api${likewise}${route!.path}`)), `${path}${route!.path}`);
      }
    }
  });

  it("shows bodies that are taken, and all fields of answers", async () => {
    const [, token = ""] = /^The body of the `POST` is `(.*)`: /m.exec(document) ?? [];
    const made = await withStatus(201, post(`${berth.url}/api/tokens`, token));
    const [, fields = ""] = /"tokens": \[\{([^}]*)\}/.exec(document) ?? [];
    assert.deepEqual(Object.keys(made.body).sort(), [...fields.split(", "), "token"].sort());
    const listed = (await (await fetch(`${berth.url}/api/tokens`)).json()) as { tokens: object[] };
    assert.deepEqual(Object.keys(listed.tokens[0]!).sort(), fields.split(", ").sort());

    const secret = { method: "PUT", headers: { "Content-Type": "application/json" }, body: '{"value": "in a text"}' };
    assert.equal((await fetch(`${berth.url}/api/secrets/CODE`, secret)).status, 204);
    const { secrets } = (await (await fetch(`${berth.url}/api/secrets`)).json()) as { secrets: object[] };
    const [, facts = ""] = /"secrets": \[\{([^}]*)\}/.exec(document) ?? [];
    assert.deepEqual(Object.keys(secrets[0]!).sort(), facts.split(", ").sort());
  });
});
