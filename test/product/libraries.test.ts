import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";

/** The only part of `src/` that may use each library. */
const jobs: Readonly<Record<string, readonly string[]>> = {
  express: ["http/"],
  // A lock that the system releases with its process: SQLite has the one that works on every system.
  "better-sqlite3": ["store/", "lib/file-lock.ts"],
  ajv: ["host/checks/", "discover/schema-check.ts"],
  esbuild: ["discover/"],
  handlebars: ["http/"],
  multiformats: ["lib/cid.ts"],
  typescript: ["discover/"],
};

describe("the product", () => {
  it("each library does its job, in one place (C9)", () => {
    const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
      .filter((file) => /\.m?tsx?$/.test(file))
      .map((file) => [file, readFileSync(`src/${file}`, "utf8")] as const);
    for (const [library, places] of Object.entries(jobs)) {
      const imported = new RegExp(
        `^import (?!type )[^;]*? from "#?${library}(/[^"]*)?";|= (await import|require|createRequire\\(import.meta.url\\))\\("#?${library}(/[^"]*)?"\\)`,
        "m",
      );
      const users = sources.filter(([, text]) => imported.test(text)).map(([file]) => file);
      assert.notDeepEqual(users, [], library);
      for (const place of places) {
        assert.ok(
          users.some((file) => file.startsWith(place)),
          `nothing in src/${place} uses ${library}`,
        );
      }
      const elsewhere = users.filter((file) => !places.some((place) => file.startsWith(place)));
      assert.deepEqual(elsewhere, [], `${library} is used elsewhere`);
    }
  });

  it("has the top level that its design names (C9)", () => {
    const files = ["package.json", "tsconfig.json", "README.md", "LICENSE", "CHANGELOG.md"];
    const folders = ["src", "reference_templates", "boot", "views", "scripts", "test", "docs", ".ci"];
    for (const name of [...files, ...folders]) assert.ok(existsSync(name), name);
    const parts = ["http", "mcp", "host", "image", "discover", "executor", "upstream", "store"];
    for (const name of [...parts, "cli.ts", "config.ts", "lib/cid.ts", "lib/errors.ts", "lib/log.ts"]) {
      assert.ok(existsSync(`src/${name}`), `src/${name}`);
    }
  });
});
