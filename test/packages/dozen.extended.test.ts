import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { packageRoot } from "../../src/config.ts";
import { openCompiler } from "../../src/discover/compiler.ts";
import type { Compiled } from "../../src/discover/discovery.ts";
import { createSchemaDescriber } from "../../src/executor/describe-schemas.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import {
  connecting,
  definitionOf,
  dozen,
  expected,
  mistakesIn,
  openGuests,
  openServers,
  openSet,
  resultOf,
} from "../support/tried-packages.ts";

const { set, tarball } = await openSet([...dozen, ...connecting]);
const executors = {
  sandboxed: await openGuests("sandboxed"),
  trusted: await openGuests("trusted"),
};
const describeSchemas = createSchemaDescriber((program) => executors.sandboxed.load(program), "default");
const compiler = openCompiler(defaultLimits, { describe: describeSchemas });
const servers = openServers();
after(() => Promise.all([compiler, servers, ...Object.values(executors)].map((each) => each.close())));

/** Compiles the definition of a package, and calls it with the sandbox and without. */
async function works(name: string): Promise<Compiled> {
  const found = await compiler.compile(definitionOf(name, set), { tarballs: tarball });
  assert.deepEqual(mistakesIn(found), []);
  assert.ok(found.packages!.some((share) => share.name === name && share.bytes > 0));
  const port = await servers.portFor(name);
  for (const executor of Object.values(executors)) {
    assert.deepEqual(await resultOf(found, expected[name], executor, port), { value: expected[name] });
  }
  return found;
}

describe("packages that connect to servers", () => {
  for (const name of connecting) {
    it(`${name} does its work with a server that its definition is given, with the sandbox and without`, async () => {
      await works(name);
    });
  }
});

describe("a dozen packages that people import", () => {
  const compiled = new Map<string, Compiled>();
  const cidOf = (name: string): string => rawBlock(Buffer.from(compiled.get(name)!.bundle!)).cid;

  for (const name of dozen) {
    it(`${name} is bundled and type-checked, and does its work in a guest, with the sandbox and without`, async () => {
      compiled.set(name, await works(name));
    });
  }

  it("give the same bundles on Node 24", async (t) => {
    if (process.version.startsWith("v24.")) return t.skip("this is Node 24");
    const node = join(packageRoot, "test", "clients", "node_modules", ".bin", "node");
    assert.ok(existsSync(node), "node scripts/setup.mjs installs it");
    const program = fileURLToPath(new URL("../support/compile-dozen.js", import.meta.url));
    const { stdout } = await promisify(execFile)(node, [program]);
    assert.deepEqual(JSON.parse(stdout), Object.fromEntries(dozen.map((name) => [name, cidOf(name)])));
  });
});
