import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cp, mkdir, readFile, stat, utimes } from "node:fs/promises";
import { join, resolve } from "node:path";
import { it } from "node:test";
import { temporaryFolder } from "../support/suite.ts";

const FILES = ["discover/key.ts", "discover/files/imports.ts", "lib/cid.ts", "executor/guest/forwarder.mts"];

it("the code that npm start compiles is that of the build where an image counts by it, loads elsewhere, and is compiled again only when it changed", async () => {
  const folder = temporaryFolder();
  for (const file of FILES) {
    await mkdir(join(folder, "src", file, ".."), { recursive: true });
    await cp(join("src", file), join(folder, "src", file));
  }
  await cp("tsconfig.json", join(folder, "tsconfig.json"));
  const compile = (): void => void execFileSync(process.execPath, [resolve("scripts/transpile.mjs")], { cwd: folder });
  const compiled = (file: string): string => join("dist/src", file.replace(/\.(m?)ts$/, ".$1js"));
  compile();
  // A build without source maps leaves out the last line.
  const read = async (path: string): Promise<string> =>
    (await readFile(path, "utf8")).replace(/\/\/# sourceMappingURL=.*\n?$/, "");
  for (const file of FILES.slice(0, 2)) {
    assert.equal(await read(join(folder, compiled(file))), await read(compiled(file)), file);
  }
  assert.match(await readFile(join(folder, compiled("lib/cid.ts")), "utf8"), /from "\.\/canonical-json\.js"/);
  assert.ok((await stat(join(folder, compiled("executor/guest/forwarder.mts")))).size > 0);

  const before = new Date(2_000);
  for (const file of FILES) await utimes(join(folder, compiled(file)), before, before);
  for (const file of FILES.slice(1)) await utimes(join(folder, "src", file), new Date(1_000), new Date(1_000));
  compile();
  const isNew = async (file: string): Promise<boolean> => (await stat(join(folder, compiled(file)))).mtimeMs > 2_000;
  assert.deepEqual(await Promise.all(FILES.map(isNew)), [true, false, false, false]);
});
