import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import type { PackageSet } from "../../src/packages/package-set.ts";
import { apiOf, type Api, type ApiReply } from "../support/api.ts";
import { berth as command, type Ran } from "../support/commands.ts";
import { sha512, tarballOf, type TestPackage } from "../support/registry.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite, registryInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";

const packageNamed = (name: string, what: string, version = "1.0.0"): TestPackage => ({
  name,
  version,
  manifest: { type: "module", main: "index.js", types: "index.d.ts" },
  files: { "index.js": `export const is = "${what}";\n`, "index.d.ts": "export declare const is: string;\n" },
});
const [real, other] = [packageNamed("zod", "real"), packageNamed("evil", "of the registry")];
const own = tarballOf(packageNamed("zod", "the tenant's own"));
const SOURCE = 'import { is } from "zod";\nexport function what(): string { return is; }\n';

describe("the bytes of a tenant's packages", () => {
  const registry = registryInSuite(real, other);
  const berth = berthInSuite(() => ({
    texts: { "alone.ts": "export function alone(): void {}" },
    env: {
      BERTH_REGISTRY: registry.url,
      BERTH_TENANT_PACKAGES: "acme",
      BERTH_SAVES_PER_MINUTE_PER_TENANT: "0",
      BERTH_REVIEWS_PER_MINUTE_PER_TENANT: "0",
    },
  }));
  let api: Api;
  before(async () => {
    await onStoreOf(berth, async (store) => {
      await addTenant(store, "acme");
      await store.change("acme", { by: "test", put: [rawBlock(own)] });
    });
    api = apiOf({ url: `${berth.url}/t/acme` });
  });

  const line = (bytes: Uint8Array, name = "zod", tarball: string | null = rawBlock(bytes).cid): object => ({
    name,
    version: "1.0.0",
    integrity: sha512(bytes),
    ...(tarball !== null && { tarball }),
  });
  const setOf = (...lines: object[]): string => {
    const named = lines as { name: string }[];
    return JSON.stringify({
      dependencies: Object.fromEntries(named.map(({ name }) => [name, "^1"])),
      packages: Object.fromEntries(named.map((each) => [`node_modules/${each.name}`, each])),
    });
  };
  const save = async (text: string): Promise<ApiReply> => {
    const reply = await api.send("PUT", "/variables/packages", text, {
      "If-Match": "*",
      "Berth-Allow-Breaking": "true",
    });
    assert.ok(reply.status < 300, JSON.stringify(reply.body));
    return reply;
  };
  const add = async (...names: string[]): Promise<string> => {
    if ((await api.send("GET", "/packages")).body.cid !== null)
      await api.send("DELETE", "/variables/packages", undefined, { "If-Match": "*", "Berth-Allow-Breaking": "true" });
    const reply = await api.send("POST", "/packages", { add: names }, { "Berth-Allow-Breaking": "true" });
    assert.ok(reply.status < 300, JSON.stringify(reply.body));
    return (await api.send("GET", "/variables/packages")).body.files.packages as string;
  };
  const marks = async (): Promise<Record<string, true | undefined>> => {
    const { body } = await api.send("GET", "/packages");
    const listed = body.packages as { name: string; supplied?: true }[];
    return Object.fromEntries(listed.map(({ name, supplied }) => [name, supplied]));
  };
  const packages = (...args: string[]): Promise<Ran> =>
    command(["packages", ...args, "--tenant", "acme"], {
      env: { BERTH_DATA: join(berth.folder, "data"), BERTH_REGISTRY: registry.url, BERTH_TENANT_PACKAGES: "acme" },
    });

  it("show in the review that they change under the same version, and that no registry has them", async () => {
    await add("zod");
    assert.deepEqual(await marks(), { zod: undefined });
    const { body } = await api.send("POST", "/variables/packages/review", setOf(line(own)));
    assert.deepEqual(body.packages, [
      { name: "zod", before: ["1.0.0"], after: ["1.0.0"], changedBytes: ["1.0.0"], supplied: ["1.0.0"], direct: true },
    ]);
    assert.deepEqual(rows(body.problems, "code", "severity"), ["changed-bytes warning", "supplied-package warning"]);
  });

  it("are listed as from no registry by the API, the pages, and the command", async () => {
    await save(setOf(line(own)));
    const setText = (await api.send("GET", "/variables/packages")).body.files.packages as string;
    assert.deepEqual(await marks(), { zod: true });
    assert.ok((await api.put("/definitions/what", SOURCE)).status < 300);
    for (const page of ["/packages", "/mcp/meta/what?tab=code"])
      assert.match(
        await (await fetch(`${berth.url}/t/acme${page}`)).text(),
        /1\.0\.0 <span[^>]*>from no registry</,
        page,
      );
    assert.match((await packages("list")).stdout, /^zod 1\.0\.0 \(from no registry\) \(\^1\)/);
    assert.equal(JSON.parse((await packages("list", "--json")).stdout).packages[0].supplied, true);
    const anyway = { "If-Match": "*", "Berth-Allow-Breaking": "true" };
    assert.ok((await api.send("DELETE", "/definitions/what", undefined, anyway)).status < 300);
    await add("zod");
    const reviewed = await packages("restore", rawBlock(setText).cid, "--review");
    assert.equal(reviewed.stdout.split("\n")[0], "~ zod 1.0.0 → 1.0.0");
    assert.match(
      reviewed.stderr,
      /zod 1\.0\.0 has different bytes than before[^]*zod 1\.0\.0 does not come from a registry/,
    );
  });

  it("stay marked whatever a later text says, and are not marked by what it says", async () => {
    await save(setOf(line(own)));
    const text = JSON.parse((await api.send("GET", "/variables/packages")).body.files.packages as string) as PackageSet;
    const without = { ...text.packages["node_modules/zod"]! };
    delete (without as { supplied?: true }).supplied;
    await save(`${setOf(without)}\n`);
    assert.deepEqual(await marks(), { zod: true });
    const fetched = await add("zod");
    assert.ok(!fetched.includes("supplied"));
    await save(setOf({ ...line(tarballOf(real)), supplied: true }));
    assert.deepEqual(await marks(), { zod: undefined });
  });

  it("are marked where a package of the registry goes by another's name", async () => {
    await add("zod", "evil");
    await save(setOf(line(tarballOf(other))));
    assert.deepEqual(await marks(), { zod: true });
    await add("evil");
    await save(setOf(line(tarballOf(other), "evil"), line(tarballOf(other))));
    assert.deepEqual(await marks(), { evil: undefined, zod: true });
  });

  it("are not fetched under another package's name", async () => {
    await add("zod");
    const swapped = [line(tarballOf(other), "zod", null), line(tarballOf(real), "evil", null)];
    await api.send("DELETE", "/variables/packages", undefined, { "If-Match": "*", "Berth-Allow-Breaking": "true" });
    const reply = await api.send("PUT", "/variables/packages", setOf(...swapped), { "If-None-Match": "*" });
    assert.equal(reply.status, 422, JSON.stringify(reply.body));
    assert.match(JSON.stringify(reply.body), /does not have the sha512 of the lock/);
  });

  it("are not marked in an earlier set that is restored", async () => {
    const earlier = await add("zod");
    await save(setOf(line(own)));
    await save(earlier);
    assert.deepEqual(await marks(), { zod: undefined });
    const { body } = await api.send("POST", "/variables/packages/review", setOf(line(own)));
    assert.deepEqual(body.packages[0].supplied, ["1.0.0"]);
  });
});
