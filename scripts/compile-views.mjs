// Compiles the templates of views/ to functions, in dist/views.cjs: {layout, partials: {"tools": …, "pages/meta": …}},
// each as `handlebars.template` takes it. So the serving process needs neither a compiler for them nor time to compile.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
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

const partials = ["partials", "pages"].flatMap((folder) =>
  readdirSync(join(VIEWS, folder))
    .sort()
    .map((file) => {
      const name = file.replace(/\.hbs$/, "");
      return `${JSON.stringify(folder === "pages" ? `pages/${name}` : name)}: ${compiled(join(folder, file))}`;
    }),
);
const script = `"use strict"; module.exports = { layout: ${compiled("layout.hbs")}, partials: { ${partials.join(", ")} } };`;
mkdirSync("dist", { recursive: true });
writeFileSync("dist/views.cjs", transformSync(script, { minify: true, target: "node20.19" }).code);

function compiled(file) {
  return handlebars.precompile(readFileSync(join(VIEWS, file), "utf8"), OPTIONS).replaceAll(LOCATIONS, "");
}
