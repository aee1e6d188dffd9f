import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { packageRoot } from "../../../src/config.ts";

test("no template puts into a tag what is escaped for text between tags only (T14.2)", () => {
  const files = ["views", "src/features"]
    .map((name) => join(packageRoot, name))
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)))
    .filter((file) => file.endsWith(".hbs"));
  const uses = files.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/.\{\{~?#?asText/gs)].map(([use]) => ({ file, use })),
  );
  assert.ok(uses.length > 0);
  for (const { file, use } of uses) assert.ok(use.startsWith(">"), `${file}: asText is not right after a tag`);
});
