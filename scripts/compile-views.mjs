// Compiles the templates of views/ to functions, in dist/views.cjs: {layout, partials: {"tools": …, "pages/meta": …}},
// each as `handlebars.template` takes it. So the serving process needs neither a compiler for them nor time to compile.
// Features have theirs in their folders: src/features/state/keys.page.hbs is "pages/keys", and keys.partial.hbs "keys".
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { transformSync } from "esbuild";
import handlebars from "handlebars";

const VIEWS = "views";
const OPTIONS = {
  strict: true,
  // A partial's lines must not be indented like the line that names it: the content of a `pre` would be, too.
  preventIndent: true,
  // Without it every value is first looked up among the helpers, which doubles the time of a page.
  knownHelpersOnly: true,
  knownHelpers: { asset: true, is: true, asText: true },
};
/**
 * The position of each value in a template, which costs new objects for each value of each page. In a string, quotes
 * are escaped.
 */
const LOCATIONS = /, ?(?:"loc":)?\{"start":\{"line":\d+,"column":\d+\},"end":\{"line":\d+,"column":\d+\}\}/g;

const FEATURES = "src/features";
const templates = [
  ...listFiles(join(VIEWS, "partials")).map((file) => [basename(file, ".hbs"), file]),
  ...listFiles(join(VIEWS, "pages")).map((file) => [`pages/${basename(file, ".hbs")}`, file]),
  ...listFiles(FEATURES, /\.partial\.hbs$/).map((file) => [basename(file, ".partial.hbs"), file]),
  ...listFiles(FEATURES, /\.page\.hbs$/).map((file) => [`pages/${basename(file, ".page.hbs")}`, file]),
];
const partials = templates.map(([name, file]) => `${JSON.stringify(name)}: ${compiled(file)}`);
const layout = compiled(join(VIEWS, "layout.hbs"));
const script = `"use strict"; module.exports = { layout: ${layout}, partials: { ${partials.join(", ")} } };`;
mkdirSync("dist", { recursive: true });
writeFileSync("dist/views.cjs", transformSync(script, { minify: true, target: "node20.19" }).code);

function listFiles(folder, pattern = /\.hbs$/) {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => pattern.test(name))
    .sort((one, other) => (one < other ? -1 : 1))
    .map((name) => join(folder, name));
}

function compiled(file) {
  return handlebars.precompile(readFileSync(file, "utf8"), OPTIONS).replaceAll(LOCATIONS, "");
}
