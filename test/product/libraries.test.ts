import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

/** The only part of `src/` that may use each library. */
const jobs: Readonly<Record<string, readonly string[]>> = {
  express: ["http/", "features/"],
  // `berth doctor` tries whether it loads. A lock that the system releases with its process: SQLite has the one that works on every system.
  "better-sqlite3": ["store/", "lib/file-lock.ts", "features/doctor/"],
  ajv: ["host/checks/", "discover/typescript/schema-check.ts"],
  esbuild: ["discover/"],
  handlebars: ["http/"],
  multiformats: ["lib/cid.ts"],
  typescript: ["discover/"],
};

test("each library is used in one place of the product (C9)", () => {
  const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((file) => /\.m?tsx?$/.test(file))
    .map((file) => [file, readFileSync(`src/${file}`, "utf8")] as const);
  for (const [library, places] of Object.entries(jobs)) {
    const imported = new RegExp(
      `^import (?!type )[^;]*? from "#?${library}(/[^"]*)?";|= (await import|require|createRequire\\(import.meta.url\\))\\("#?${library}(/[^"]*)?"\\)`,
      "m",
    );
    const users = sources.filter(([, text]) => imported.test(text)).map(([file]) => file);
    assert.deepEqual(
      new Set(users.map((file) => places.find((place) => file.startsWith(place)) ?? file)),
      new Set(places),
    );
  }
});

test("berth serve imports no compiler, early or late", () => {
  const imported = new Set<string>();
  const follow = (file: string): void => {
    if (imported.has(file)) return;
    imported.add(file);
    const found = readFileSync(file, "utf8").matchAll(
      /(?:^(?:import|export) (?!type )[^;]*?from |\b(?:import|require)\()"([^"]+)"/gm,
    );
    for (const [, name] of found) {
      assert.doesNotMatch(name!, /^#?(typescript|esbuild)\b/, file);
      if (name!.startsWith(".")) follow(join(dirname(file), name!));
    }
  };
  follow("src/commands/serve.ts");
  assert.ok(imported.has("src/host/open-host.ts") && imported.has("src/discover/compiler.ts"), [...imported].join());
});
