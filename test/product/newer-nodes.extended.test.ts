import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { runTests } from "../support/test-run.ts";

/**
 * The parts that Node itself may break: the store with its threads, guests and their sandbox, the compiler, HTTP, and
 * real clients. The SQLite library depends on whether Node is older than 22.14, and all newer ones share it: 22 is
 * tested for that alone.
 */
const slices: Readonly<Record<string, readonly string[]>> = {
  "22": ["store/sqlite", "store/long-changes"],
  "24": [
    "store/sqlite",
    "store/long-changes",
    "executor/sandboxed",
    "discover/typescript/cases",
    "discover/shell/shell",
    "http/server",
    "clients/reference-servers",
  ],
};

/** The folder of each in `scripts/setup.mjs`. */
const nodes: Readonly<Record<string, string>> = { "22": "test/nodes", "24": "test/clients" };

describe("Node", () => {
  for (const [version, slice] of Object.entries(slices)) {
    it(`${version} passes a slice of the tests`, async (t) => {
      const node = join(packageRoot, nodes[version]!, "node_modules", ".bin", "node");
      if (process.version.startsWith(`v${version}.`)) return t.skip("all tests run on it");
      assert.ok(existsSync(node), "node scripts/setup.mjs installs it");
      const files = slice.map((name) => join("dist", "test", `${name}.test.js`));
      // The compiler of this test's run uses that run's Node.
      const { code, told } = await runTests(node, files, { TEST_COMPILER: undefined });
      assert.equal(code, 0, told);
    });
  }
});
