import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { call } from "../support/berth.ts";
import { berth as command, exits, type Ran } from "../support/commands.ts";
import { type TestPackage } from "../support/registry.ts";
import { berthInSuite, registryInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const said = (version: string, more = ""): TestPackage => ({
  name: "said",
  version,
  manifest: { type: "module", main: "index.js", types: "index.d.ts" },
  files: {
    "index.js": `export const said = () => "${version}";\n`,
    "index.d.ts": `export interface Wish { how?: string${more} }\nexport declare function said(): string;\n`,
  },
});
const SOURCE = `import { said, type Wish } from "said";
/** Says it. */
export function say(wish: Wish): string { return said(); }
`;

/** Each command is another process on the data folder of a Berth that serves. */
describe("berth packages", () => {
  const berth = berthInSuite({ texts: { "own.ts": "export function own(): void {}" } });
  const registry = registryInSuite(said("1.0.0"));
  before(() => onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { user: SOURCE } })));

  const packages = (...args: string[]): Promise<Ran> =>
    command(["packages", ...args, "--tenant", "acme"], {
      env: { BERTH_DATA: join(berth.folder, "data"), BERTH_REGISTRY: registry.url, BERTH_TENANT_PACKAGES: "acme" },
    });
  const say = async (): Promise<string> => {
    const { content, error } = await call(`${berth.url}/t/acme/mcp/user`, "say", { wish: {} });
    return content?.[0].text ?? error.message;
  };

  it("adds, updates, and goes back, and a Berth that serves the folder follows", async () => {
    const reviewed = await exits(0, packages("add", "said@^1", "--review"));
    assert.equal(reviewed.stdout.split("\n")[0], "+ said 1.0.0");
    assert.match((await packages("list")).stderr, /has no packages/);

    const added = await exits(0, packages("add", "said@^1"));
    assert.match(added.stdout, /server user: added/);
    await until(async () => (await say()) === "1.0.0");
    const listed = await packages("list");
    assert.equal(listed.stdout, "said 1.0.0 (^1)  for user\n");

    registry.publish(said("1.1.0", "; loud: boolean"));
    const breaking = await exits(1, packages("update"));
    assert.match(breaking.stdout, /~ said 1\.0\.0 → 1\.1\.0\nserver user: changed.*\n {2}breaking: /);
    await exits(0, packages("update", "said", "--allow-breaking"));

    const history = await packages("history");
    const [now = "", before = ""] = history.stdout.split("\n");
    assert.match(now, /by command$/);
    await exits(0, packages("restore", before.split(" ")[0]!, "--allow-breaking"));
    await until(async () => (await say()) === "1.0.0");
    const removed = await packages("remove", "said");
    assert.deepEqual([removed.code, /"user": /.test(removed.stderr)], [1, true]);
  });

  it("says what is wrong where there is no such tenant, package, or version", async () => {
    for (const [args, message] of [
      [["restore", "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"], /never were/],
      [["remove", "nowhere"], /"nowhere" is not in the set/],
      [["add", "git+https://example.com/x.git"], /is not a package of the registry/],
    ] as const) {
      const { stderr } = await exits(2, packages(...args));
      assert.match(stderr, message);
    }
  });
});
