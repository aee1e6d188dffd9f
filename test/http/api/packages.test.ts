import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { rawBlock } from "../../../src/lib/cid.ts";
import { apiOf, type Api, type ApiReply } from "../../support/api.ts";
import { call, NODES, withStatus } from "../../support/berth.ts";
import { sha512, tarballOf, type TestPackage } from "../../support/registry.ts";
import { berthInSuite, registryInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";

const TOKEN = "the-operators-own-registry-token";

/** A package whose function greets; `more` are further parameters of it. */
const greet = (version: string, more = ""): TestPackage => ({
  name: "greet",
  version,
  manifest: { type: "module", main: "index.js", types: "index.d.ts", dependencies: { inner: "^1.0.0" } },
  files: {
    "index.js": `import { mark } from "inner";\nexport const greet = (name) => "${version} greets " + name + mark;\n`,
    "index.d.ts": `export interface Wish { name: string${more} }\nexport declare function greet(name: string): string;\n`,
  },
});
const inner: TestPackage = {
  name: "inner",
  manifest: { type: "module", main: "index.js", types: "index.d.ts" },
  files: { "index.js": 'export const mark = "!";\n', "index.d.ts": "export declare const mark: string;\n" },
};
const SOURCE = `import { greet, type Wish } from "greet";
/** Greets. */
export function hello(wish: Wish): string { return greet(wish.name); }
`;
const ALONE = "/** Is there. */\nexport function here(): string { return 'here'; }\n";

describe("the API of packages", () => {
  const registry = registryInSuite(inner, greet("1.0.0"));
  const berth = berthInSuite(() => ({
    texts: { "alone.ts": ALONE },
    env: {
      BERTH_REGISTRY: registry.url,
      BERTH_REGISTRY_TOKEN: TOKEN,
      BERTH_TENANT_PACKAGES: "acme,small",
      BERTH_SAVES_PER_MINUTE_PER_TENANT: "0",
      BERTH_REVIEWS_PER_MINUTE_PER_TENANT: "0",
    },
  }));
  const api = apiOf(berth);
  before(() =>
    onStoreOf(berth, async (store) => {
      for (const name of ["acme", "other"]) await addTenant(store, name);
      await addTenant(store, "small", { limits: { storedBytes: 600 } });
    }),
  );

  const of = (tenant: string): Api => apiOf({ url: `${berth.url}/t/${tenant}` });
  const versions = async (at: Api): Promise<string[]> => {
    const { body } = await at.send("GET", "/packages");
    return body.packages.map(({ name, version }: { name: string; version: string }) => `${name} ${version}`);
  };
  const hello = async (at = "", more: object = {}): Promise<string> =>
    (await call(`${berth.url}${at}/mcp/hello`, "hello", { wish: { name: "Ada", ...more } })).content[0].text;
  const done = (reply: ApiReply): ApiReply => {
    assert.ok(reply.status < 300, JSON.stringify(reply.body));
    return reply;
  };

  it("reviews an added package without keeping anything, and saves what was reviewed", async () => {
    const reviewed = done(await api.send("POST", "/packages/review", { add: ["greet@^1"] }));
    assert.deepEqual(reviewed.body.review.packages, [
      { name: "greet", before: [], after: ["1.0.0"], direct: true },
      { name: "inner", before: [], after: ["1.0.0"], direct: false },
    ]);
    assert.deepEqual(await versions(api), []);
    assert.equal((await api.send("GET", "/variables/packages")).status, 404);
    // What was reviewed stays what it was, as far as the node knows that made the review.
    if (NODES === 1) registry.publish(greet("1.0.1"));
    const wish = { add: ["greet@^1"], set: reviewed.body.set };
    const saved = done(await api.send("POST", "/packages", wish));
    if (NODES === 2) registry.publish(greet("1.0.1"));
    assert.equal(saved.cid, reviewed.body.set);
    assert.deepEqual(await versions(api), ["greet 1.0.0", "inner 1.0.0"]);
    const { body } = await api.send("GET", "/packages");
    const [first] = body.packages;
    assert.deepEqual(
      { ...first, tarball: "", integrity: "" },
      { ...first, tarball: "", integrity: "", direct: true, range: "^1", path: "node_modules/greet", servers: [] },
    );
    assert.equal(first.integrity, sha512(tarballOf(greet("1.0.0"))));
    assert.equal(first.tarball, rawBlock(tarballOf(greet("1.0.0"))).cid);
  });

  it("serves a definition that imports it, and tells who uses what", async () => {
    done(await api.put("/definitions/hello", SOURCE));
    assert.equal(await hello(), "1.0.0 greets Ada!");
    const { body } = await api.send("GET", "/packages");
    const users = body.packages.map(({ servers }: { servers: string[] }) => servers);
    assert.deepEqual(users, [["hello"], ["hello"]]);
  });

  it("has a page that shows packages and who uses them, to their tenant alone", async () => {
    const page = async (path: string): Promise<string> =>
      (await fetch(berth.url + path, { headers: { Accept: "text/html" } })).text();
    const own = await page("/packages");
    assert.match(own, /greet[^]*1\.0\.0[^]*href="\/mcp\/meta\/hello"/);
    assert.match(await page("/mcp/meta/hello?tab=code"), /greet\s*(?:<[^>]+>\s*)*1\.0\.0/);
    const theirs = await page("/t/other/packages");
    assert.match(theirs, /BERTH_TENANT_PACKAGES/);
    assert.doesNotMatch(theirs, /greet|Add a package/);
  });

  it("compiles only the servers that an update reaches, and puts it in effect at once", async () => {
    await call(`${berth.url}/mcp/alone`, "here");
    const stood = (await api.send("GET", "/servers/alone/releases")).body.releases.length as number;
    const { body } = done(await api.send("POST", "/packages/review", { update: true }));
    assert.deepEqual(body.review.packages, [{ name: "greet", before: ["1.0.0"], after: ["1.0.1"], direct: true }]);
    const [effect, ...others] = body.review.servers;
    assert.deepEqual(others, []);
    assert.deepEqual([effect.server, effect.changes, effect.newBehaviour], ["hello", [], ["hello"]]);
    assert.ok(effect.bundleBytes.before > 0 && effect.bundleBytes.after > 0);
    assert.equal(await hello(), "1.0.0 greets Ada!");
    done(await api.send("POST", "/packages", { update: ["greet"], set: undefined }));
    assert.equal(await hello(), "1.0.1 greets Ada!");
    assert.equal((await api.send("GET", "/servers/alone/releases")).body.releases.length, stood);
  });

  it("asks before an update that breaks a contract; going back brings the old release back", async () => {
    const { body: before } = await api.send("GET", "/servers/hello/releases");
    const standing = (await api.send("GET", "/variables/packages")).cid;
    registry.publish(greet("1.2.0", "; loud: boolean"));
    const refused = await withStatus(409, api.send("POST", "/packages", { update: true }));
    assert.equal(refused.body.error.code, "edit_breaking");
    assert.equal(await hello(), "1.0.1 greets Ada!");
    done(await api.send("POST", "/packages", { update: true }, { "Berth-Allow-Breaking": "true" }));
    assert.equal(await hello("", { loud: true }), "1.2.0 greets Ada!");
    // The old release has the packages of then.
    const [{ release }] = before.releases;
    const old = await call(`${berth.url}/mcp/hello@${release}`, "hello", { wish: { name: "Ada" } });
    assert.equal(old.content[0].text, "1.0.1 greets Ada!");

    const restored = await api.send("POST", `/servers/hello/releases/${release}/restore?allow_breaking=1`);
    const [told] = restored.body.review.problems;
    assert.equal(told.code, "other-packages");
    assert.match(told.message, /greet 1\.0\.1 then, greet 1\.2\.0 now/);

    const { body: version } = await api.send("GET", `/variables/packages/versions/${standing}`);
    const draft = { entry: version.entry, files: version.files };
    registry.unpublish("greet");
    const back = await api.send("PUT", "/variables/packages", draft, {
      "If-Match": "*",
      "Berth-Allow-Breaking": "true",
    });
    assert.equal(done(back).cid, standing);
    assert.equal(await hello(), "1.0.1 greets Ada!");
    const { body: now } = await api.send("GET", "/servers/hello/releases");
    assert.equal(now.releases.find((each: { current: boolean }) => each.current).release, release);
    registry.publish(greet("1.0.0"), greet("1.0.1"), greet("1.2.0", "; loud: boolean"));
  });

  it("refuses to take a package away from a server that imports it, and names the server", async () => {
    const refused = await withStatus(422, api.send("POST", "/packages", { remove: ["greet"] }));
    assert.match(refused.body.error.message, /"hello".*greet/s);
    assert.equal(await hello(), "1.0.1 greets Ada!");
    await withStatus(422, api.send("DELETE", "/variables/packages", undefined, { "If-Match": "*" }));
  });

  it("has the text of the variable resolved where it says only what is wanted", async () => {
    const acme = of("acme");
    const saved = done(await acme.put("/variables/packages", '{"dependencies": {"greet": "~1.0.0"}}'));
    const { body } = await acme.send("GET", "/variables/packages");
    assert.equal(body.cid, saved.cid);
    assert.equal(body.language, "json");
    assert.deepEqual(await versions(acme), ["greet 1.0.1", "inner 1.0.0"]);
    done(await acme.put("/definitions/hello", SOURCE));
    assert.equal(await hello("/t/acme"), "1.0.1 greets Ada!");
    const anyway = { "If-Match": "*", "Berth-Allow-Breaking": "true" };
    done(await acme.send("DELETE", "/definitions/hello", undefined, anyway));
    done(await acme.send("DELETE", "/variables/packages", undefined, { "If-Match": "*" }));
    assert.deepEqual(await versions(acme), []);
  });

  it("serves a server that was refused once its package is there", async () => {
    const acme = of("acme");
    await onStoreOf(berth, async (store) => {
      const definition = rawBlock(SOURCE);
      const mcps = rawBlock(JSON.stringify({ hello: { definition: definition.cid } }));
      const set = [{ kind: "variable", name: "mcps", cid: mcps.cid }] as const;
      await store.change("acme", { by: "test", put: [definition, mcps], set });
    });
    const state = async (): Promise<string | undefined> => (await acme.send("GET", "/servers")).body.servers[0]?.state;
    assert.equal(await until(state), "refused");
    const { body } = done(await acme.send("POST", "/packages", { add: ["greet@~1.0.0"] }));
    assert.deepEqual(body.review.servers[0].outcome, "added");
    assert.equal(await hello("/t/acme"), "1.0.1 greets Ada!");
  });

  it("says what is wrong with a set, each at its place, and asks no registry for it", async () => {
    const asked = registry.requests.length;
    const set = {
      dependencies: { greet: "^1", missing: "^2", evil: "git+ssh://git@example.com/x.git" },
      colour: "red",
      packages: {
        "node_modules/greet": { name: "greet", version: "^1", integrity: "sha1-abc", tarball: "x", colour: 1 },
        "../../etc": { name: "<b>", version: "1.0.0", integrity: "" },
      },
    };
    const { body } = await withStatus(422, of("acme").put("/variables/packages", JSON.stringify(set, null, 2)));
    const places = body.error.data.problems.map(({ code, pointer }: { code: string; pointer: string }) => [
      code,
      pointer,
    ]);
    for (const expected of [
      ["unknown-field", "/colour"],
      ["bad-dependency", "/dependencies/evil"],
      ["wrong-type", "/packages/node_modules~1greet/version"],
      ["wrong-type", "/packages/node_modules~1greet/integrity"],
      ["wrong-type", "/packages/node_modules~1greet/tarball"],
      ["unknown-field", "/packages/node_modules~1greet/colour"],
      ["bad-place", "/packages/..~1..~1etc"],
      ["wrong-type", "/packages/..~1..~1etc/name"],
    ]) {
      assert.ok(
        places.some((place: string[]) => place.join() === expected.join()),
        `${expected.join(" ")}: ${places.join("; ")}`,
      );
    }
    assert.ok(body.error.data.problems.every(({ line }: { line?: number }) => line !== undefined));
    const without = { dependencies: { greet: "^1" }, packages: {} };
    const lacking = await of("acme").put("/variables/packages", JSON.stringify(without));
    assert.equal(lacking.body.error.data.problems[0].code, "missing-package");
    assert.equal(registry.requests.length, asked);
  });

  it("names the package that a registry does not have, or that cannot be added", async () => {
    const unknown = await withStatus(422, api.send("POST", "/packages/review", { add: ["nowhere-at-all"] }));
    assert.match(unknown.body.error.message, /nowhere-at-all/);
    for (const wish of [
      "git+https://example.com/x.git",
      "../x",
      "x@file:../x",
      "<script>alert(1)</script>",
      "x@http://a/b.tgz",
    ]) {
      const refused = await api.send("POST", "/packages/review", { add: [wish] });
      assert.equal(refused.status, 422, `${wish}: ${JSON.stringify(refused.body)}`);
    }
    assert.equal((await api.send("POST", "/packages/review", { remove: ["nowhere"] })).status, 422);
    for (const wrong of [
      {},
      { add: "greet" },
      { add: [1] },
      { update: "all" },
      { set: "x", add: ["greet"] },
      { ad: ["greet"] },
      [],
    ]) {
      assert.equal((await api.send("POST", "/packages/review", wrong)).status, 400, JSON.stringify(wrong));
    }
  });

  it("is of one tenant alone: no other sees its packages, tarballs, or the registry's token", async () => {
    const other = of("other");
    const { packages } = (await api.send("GET", "/packages")).body;
    assert.deepEqual((await other.send("GET", "/packages")).body, { cid: null, allowed: false, packages: [] });
    const cid = packages[0].tarball as string;
    assert.equal((await fetch(`${berth.url}/t/other/cid/${cid}`)).status, 404);
    for (const path of ["/packages", "/packages/review"]) {
      const refused = await withStatus(403, other.send("POST", path, { add: ["greet"] }));
      assert.match(refused.body.error.message, /BERTH_TENANT_PACKAGES/);
    }
    const put = await withStatus(422, other.put("/variables/packages", '{"dependencies": {"greet": "^1"}}'));
    assert.equal(put.body.error.data.problems[0].code, "packages-off");

    assert.ok(registry.authorizations.includes(`Bearer ${TOKEN}`));
    const { body: set } = await api.send("GET", "/variables/packages");
    assert.ok(!JSON.stringify(set).includes(TOKEN));
    registry.at("/secretive", (_request, response) => void response.writeHead(401).end("{}"));
    const failed = await of("acme").send("POST", "/packages/review", { add: ["secretive"] });
    assert.ok(failed.status >= 400);
    assert.ok(!JSON.stringify(failed.body).includes(TOKEN), JSON.stringify(failed.body));
  });

  it("takes no tarball by its CID alone: neither another tenant's, nor one with another sha512", async () => {
    const acme = of("acme");
    const secret = { name: "private-thing", files: { "index.js": "module.exports = 'of default alone';" } };
    const bytes = tarballOf(secret);
    const { cid } = rawBlock(bytes);
    await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [rawBlock(bytes)] }));
    const line = { name: "private-thing", version: "1.0.0", integrity: sha512(bytes), tarball: cid };
    const theirs = { dependencies: { "private-thing": "^1" }, packages: { "node_modules/private-thing": line } };
    const stolen = await withStatus(422, acme.put("/variables/packages", JSON.stringify(theirs)));
    assert.match(stolen.body.error.message, /private-thing/);
    assert.equal((await fetch(`${berth.url}/t/acme/cid/${cid}`)).status, 404);

    const { body } = await acme.send("GET", "/variables/packages");
    const set = JSON.parse(body.files.packages);
    set.packages["node_modules/greet"].tarball = set.packages["node_modules/inner"].tarball;
    const swapped = await withStatus(422, acme.put("/variables/packages", JSON.stringify(set)));
    assert.equal(swapped.body.error.data.problems[0].pointer, "/packages/node_modules~1greet");
    assert.equal((await acme.send("GET", "/variables/packages")).cid, body.cid);
  });

  it("takes no text that is too long, and no set that the tenant has no room for", async () => {
    const long = await of("acme").put(
      "/variables/packages",
      JSON.stringify({ dependencies: {}, x: "x".repeat(5_000_000) }),
    );
    assert.ok([413, 422].includes(long.status), String(long.status));
    const small = of("small");
    await withStatus(507, small.send("POST", "/packages", { add: ["greet"] }));
    assert.deepEqual(await versions(small), []);
  });

  it("is not for a token that is limited to one server", async () => {
    const { token } = await makeToken(berth, { name: "one", can: ["edit"], servers: ["hello"] });
    for (const [method, path, body] of [
      ["GET", "/packages", undefined],
      ["POST", "/packages", { add: ["greet"] }],
      ["POST", "/packages/review", { add: ["greet"] }],
      ["PUT", "/variables/packages", { entry: "packages", files: { packages: "{}" } }],
    ] as const) {
      const refused = await api.send(method, path, body, {
        ...bearer(token),
        ...(method === "PUT" && { "If-Match": "*" }),
      });
      assert.equal(refused.status, 403, `${method} ${path}: ${JSON.stringify(refused.body)}`);
    }
  });
});
