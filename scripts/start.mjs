// The build of `npm start`: builds only what has changed and what serving needs, and prints each step. It does not check
// types; `npm run check` does.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

await import("../sqlite/install.mjs");
process.argv.push("--quick");
await build("code", "transpile.mjs");
await build("pages", "compile-views.mjs", "dist/views.cjs", ["src/features", "views"]);
await build("browser scripts", "bundle-browser.mjs", "dist/browser/assets.json", ["src", "views"]);
await build("commands", "bundle-commands.mjs", "dist/bin/berth.cjs", ["src"]);
process.stderr.write("Checking the boot image and starting Berth …\n");

/** Runs a script, unless its product is newer than all its sources. */
async function build(what, script, product, sources) {
  const file = join("scripts", script);
  const isNew =
    product !== undefined &&
    existsSync(product) &&
    [file, "package-lock.json", ...sources].every((source) => changedAt(source) < statSync(product).mtimeMs);
  if (isNew) return;
  const began = performance.now();
  process.stderr.write(`Building ${what} … `);
  await import(`./${script}`);
  process.stderr.write(`${((performance.now() - began) / 1_000).toFixed(1)} s\n`);
}

/** The time of the last change to a file, or to any file of a folder. */
function changedAt(path) {
  const inside = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
  return Math.max(...[path, ...inside.map((name) => join(path, name))].map((each) => statSync(each).mtimeMs));
}
