import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { changedPackages } from "../../../src/host/directory/package-users.ts";
import type { Catalog } from "../../../src/host/offers/catalog.ts";
import { jsonBlock, rawBlock, type Block } from "../../../src/lib/cid.ts";
import { PACKAGES, type LockedPackage, type PackageSet } from "../../../src/packages/package-set.ts";
import { callText } from "../../support/berth.ts";
import { sha512, tarballOf } from "../../support/registry.ts";
import { berthInSuite } from "../../support/suite.ts";
import { onStoreOf } from "../../support/tenants.ts";

const TENANT = "default";

const said = (version: string): { readonly block: Block; readonly locked: LockedPackage } => {
  const files = {
    "index.js": `export const said = () => "${version}";\n`,
    "index.d.ts": "export declare function said(): string;\n",
  };
  const manifest = { type: "module", main: "index.js", types: "index.d.ts" };
  const block = rawBlock(tarballOf({ name: "said", version, manifest, files }));
  return { block, locked: { name: "said", version, integrity: sha512(block.bytes), tarball: block.cid } };
};
const setOf = (locked: LockedPackage, more: Record<string, LockedPackage> = {}): PackageSet => ({
  dependencies: { said: "*" },
  packages: { "node_modules/said": locked, ...more },
});

describe("the users of packages", () => {
  const alone = "/** Says it. */\nexport const say = (): string => 'alone';\n";
  const berth = berthInSuite({ texts: { "alone.ts": alone } });
  before(async () => {
    const definition = rawBlock(
      'import { said } from "said";\n/** Says it. */\nexport const say = (): string => said();\n',
    );
    const record = jsonBlock({ definition: definition.cid, enabled: true });
    const set = [{ kind: "server", name: "user", cid: record.cid }] as const;
    await onStoreOf(berth, (store) => store.change(TENANT, { by: "test", put: [definition, record], set }));
    await berth.reload();
  });

  /** As another process does. */
  const put = async (set: PackageSet | null, blocks: readonly Block[] = []): Promise<void> => {
    const value = set && rawBlock(JSON.stringify(set));
    const move = [{ kind: "variable", name: PACKAGES, cid: value?.cid ?? null }] as const;
    const all = [...blocks, ...(value ? [value] : [])];
    await onStoreOf(berth, (store) => store.change(TENANT, { by: "test", put: all, set: move }));
    const earlier = berth.reload();
    // When two reloads overlap, the later one ends only after the changes of the earlier one are in force.
    await berth.reload();
    overlapping.push(earlier);
  };
  const overlapping: Promise<void>[] = [];
  after(() => Promise.all(overlapping));
  const catalog = async (server: string): Promise<Catalog | undefined> => (await berth.server(server))?.catalog;
  const say = (at: string): Promise<string> => callText(`${berth.url}/mcp/${at}`, "say");

  it("are loaded anew when their packages change, and nobody else is", async () => {
    assert.equal((await berth.server("user"))?.state, "refused");
    const [one, two] = [said("1.0.0"), said("2.0.0")];
    await put(setOf(one.locked), [one.block]);
    const first = await catalog("user");
    const alone = await catalog("alone");
    assert.equal(await say("user"), "1.0.0");

    const other = said("3.0.0");
    await put(setOf(one.locked, { "node_modules/unused": { ...other.locked, name: "unused" } }), [other.block]);
    assert.equal(await catalog("user"), first, "what it does not reach is none of its business");

    await put(setOf(two.locked), [two.block]);
    assert.equal(await say("user"), "2.0.0");
    assert.equal(await catalog("alone"), alone);
    assert.equal(await say(`user@${first!.release}`), "1.0.0", "the release before has the packages of then");

    await put(setOf(one.locked));
    assert.equal((await catalog("user"))?.release, first!.release);
    await put(null);
    assert.equal((await berth.server("user"))?.state, "refused");
    assert.equal(await catalog("alone"), alone);
  });

  it("are found by the names whose imports lead to something else", async () => {
    const [one, two] = [said("1.0.0").locked, said("2.0.0").locked];
    const through = { ...one, name: "through", dependencies: ["said"] };
    const set = (inner: LockedPackage): PackageSet => ({
      dependencies: { through: "*", aside: "*" },
      packages: {
        "node_modules/aside": { ...one, name: "aside" },
        "node_modules/said": inner,
        "node_modules/through": through,
      },
    });
    assert.deepEqual([...(await changedPackages(set(one), set(one)))], []);
    assert.deepEqual([...(await changedPackages(set(one), set(two)))], ["through"]);
    assert.deepEqual([...(await changedPackages(undefined, set(one)))].sort(), ["aside", "through"]);
    assert.deepEqual([...(await changedPackages(set(one), undefined))].sort(), ["aside", "through"]);
    const nested = { ...set(one).packages, "node_modules/through/node_modules/said": two };
    assert.deepEqual([...(await changedPackages(set(one), { ...set(one), packages: nested }))], ["through"]);
  });
});
