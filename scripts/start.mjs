// What `npm start` makes before it serves, from what has changed: it says what it does, and does nothing that serving does
// not need. It looks at no types; `npm run check` does.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

process.argv.push("--quick");
await make("the code", "transpile.mjs");
await make("the pages", "compile-views.mjs", "dist/views.cjs", ["views"]);
await make("the scripts of pages", "bundle-browser.mjs", "dist/browser/assets.json", ["src", "views"]);
await make("the commands", "bundle-commands.mjs", "dist/bin/berth.cjs", ["src"]);
process.stderr.write("Looking at the boot image, and starting Berth …\n");

/** Runs a script, unless its product is newer than everything that it is made of. */
async function make(what, script, product, sources) {
  const file = join("scripts", script);
  const isNew =
    product !== undefined &&
    existsSync(product) &&
    [file, "package-lock.json", ...sources].every((source) => changedAt(source) < statSync(product).mtimeMs);
  if (isNew) return;
  const began = performance.now();
  process.stderr.write(`Making ${what} … `);
  await import(`./${script}`);
  process.stderr.write(`${((performance.now() - began) / 1_000).toFixed(1)} s\n`);
}

/** The last change to a file, or to anything in a folder. */
function changedAt(path) {
  const inside = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
  return Math.max(...[path, ...inside.map((name) => join(path, name))].map((each) => statSync(each).mtimeMs));
}
