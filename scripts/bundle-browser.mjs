// Makes what browsers load, in dist/browser/: the scripts of src/browser/, the style sheet and the icon of views/, and
// src/features/<name>/browser.ts as <name>.js.
// Each name holds the hash of the content, so that browsers can keep it for ever; gzip and brotli stand beside it.
// assets.json there: {entries: {"page.js": "page.HASH.js", …}, files: every file that may be asked for}. With --quick
// nothing is compressed well, and `quick` there says so.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, parse, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "esbuild";
import { LICENSES, writeLicenses } from "./licenses.mjs";

const out = "dist/browser";
const isQuick = process.argv.includes("--quick");
const wasQuick =
  existsSync(join(out, "assets.json")) && JSON.parse(readFileSync(join(out, "assets.json"), "utf8")).quick;
mkdirSync(out, { recursive: true });

/** Replacements for lists and libraries that packages take whole: only the parts that are needed. */
const standIns = {
  name: "stand-ins",
  setup({ onLoad, onResolve }) {
    const lists = /@rjsf[\\/]core[\\/]lib[\\/]components[\\/](fields|widgets|templates)[\\/]index\.js$/;
    onResolve({ filter: /^zod\/v4$/ }, ({ importer }) =>
      /@modelcontextprotocol[\\/]ext-apps/.test(importer)
        ? { path: resolve("src/browser/tester/apps/zod-parts.ts") }
        : undefined,
    );
    onLoad({ filter: lists }, ({ path }) => ({
      contents: `export { default } from "./plain-${lists.exec(path)[1]}.ts";`,
      resolveDir: resolve("src/browser/tester/form"),
    }));
  },
};

const scripts = listFiles("src/browser", /\.ts$/).map((file) => [file, basename(file, ".ts")]);
const ofFeatures = readdirSync("src/features")
  .map((name) => [join("src/features", name, "browser.ts"), name])
  .filter(([file]) => existsSync(file));
const styles = listFiles("views", /\.(css|svg)$/).map((file) => [file, parse(file).name]);

const { outputFiles, metafile } = await build({
  entryPoints: [...scripts, ...ofFeatures, ...styles].map(([file, out]) => ({ in: file, out })),
  entryNames: "[name].[hash]",
  chunkNames: "[name].[hash]",
  outdir: out,
  bundle: true,
  format: "esm",
  splitting: true,
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
  loader: { ".svg": "copy" },
  // The form library is made for React, of which Preact is the small variant. The others are parts that the tester
  // already has or does not use, and would be a third of its weight.
  alias: {
    react: "preact/compat",
    "react/jsx-runtime": "preact/jsx-runtime",
    "markdown-to-jsx/react": resolve("src/browser/tester/form/plain-markdown.tsx"),
    "fast-equals": resolve("src/browser/tester/form/plain-equals.ts"),
    "fast-uri": resolve("src/browser/tester/form/plain-uri.ts"),
    "@modelcontextprotocol/client/_shims": resolve("src/browser/tester/client-parts.ts"),
  },
  plugins: [standIns],
  metafile: true,
  write: false,
  logLevel: "warning",
});

const entries = {};
for (const [file, { entryPoint }] of Object.entries(metafile.outputs)) {
  if (entryPoint) entries[basename(file).replace(/\.\w+(\.\w+)$/, "$1")] = basename(file);
}
const files = outputFiles.map(({ path }) => basename(path));
const kept = new Set(["assets.json", LICENSES, ...files.flatMap((file) => [file, `${file}.gz`, `${file}.br`])]);
for (const file of readdirSync(out)) if (!kept.has(file)) rmSync(join(out, file));

for (const { path, contents } of outputFiles) {
  const file = join(out, basename(path));
  // The name identifies the content, and compressing well takes long.
  const isThere = existsSync(`${file}.br`) && readFileSync(file).equals(contents);
  if (isThere && (isQuick || !wasQuick)) continue;
  writeFileSync(file, contents);
  writeFileSync(`${file}.gz`, gzipSync(contents, { level: isQuick ? 1 : 9 }));
  const quality = isQuick ? 4 : constants.BROTLI_MAX_QUALITY;
  writeFileSync(`${file}.br`, brotliCompressSync(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }));
}
writeLicenses(out, Object.keys(metafile.inputs));
writeFileSync(join(out, "assets.json"), `${JSON.stringify({ entries, files, quick: isQuick }, null, 2)}\n`);

function listFiles(folder, pattern) {
  return readdirSync(folder)
    .filter((name) => pattern.test(name))
    .sort()
    .map((name) => join(folder, name));
}
