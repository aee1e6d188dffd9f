// Compiles src to dist/src without a look at types, and only what has changed, in a fraction of the time of `tsc`. The
// compiler of definitions becomes what `tsc` makes of it, byte for byte: an image counts by the code that compiled it.
// Of the scripts of pages, only files that tests load are compiled: those that `tsc` has compiled before.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const BROWSER = /^src[\\/](?:browser[\\/]|features[\\/]\w+[\\/]browser\.ts$)/;
const COMPILER = join("src", "discover");

const stale = readdirSync("src", { recursive: true, encoding: "utf8" })
  .map((name) => join("src", name))
  .filter((file) => /\.m?ts$/.test(file) && !/\.d\.m?ts$/.test(file))
  .filter((file) => {
    const output = outputOf(file);
    if (!existsSync(output)) return !BROWSER.test(file);
    return statSync(output).mtimeMs < statSync(file).mtimeMs;
  });
const exact = stale.filter((file) => file.startsWith(COMPILER));
const others = stale.filter((file) => !exact.includes(file));

for (const [ending, outExtension] of [
  [".ts", ".js"],
  [".mts", ".mjs"],
]) {
  const entryPoints = others.filter((file) => file.endsWith(ending));
  if (entryPoints.length > 0) {
    await build({
      entryPoints,
      outbase: ".",
      outdir: "dist",
      outExtension: { ".js": outExtension },
      platform: "node",
      format: "esm",
      target: "es2023",
      sourcemap: true,
      // Nothing is put together: bundling is the way to have each import looked at.
      bundle: true,
      treeShaking: false,
      plugins: [{ name: "as compiled", setup: (building) => building.onResolve({ filter: /./ }, asCompiled) }],
      logLevel: "warning",
    });
  }
}
if (exact.length > 0) await compileExactly(exact);

function asCompiled({ kind, path }) {
  if (kind === "entry-point") return undefined;
  return { path: /^\.\.?\//.test(path) ? path.replace(/\.(m?)ts$/, ".$1js") : path, external: true };
}

async function compileExactly(files) {
  const { default: ts } = await import("typescript");
  const { compilerOptions } = JSON.parse(readFileSync("tsconfig.json", "utf8"));
  const { options } = ts.convertCompilerOptionsFromJson(compilerOptions, ".");
  const { ESNext } = ts.ModuleKind;
  const moduleResolution = ts.ModuleResolutionKind.Bundler;
  for (const file of files) {
    const { outputText, sourceMapText } = ts.transpileModule(readFileSync(file, "utf8"), {
      fileName: file,
      compilerOptions: { ...options, module: ESNext, moduleResolution },
    });
    const output = outputOf(file);
    mkdirSync(dirname(output), { recursive: true });
    writeFileSync(`${output}.map`, sourceMapText);
    writeFileSync(output, outputText);
  }
}

function outputOf(file) {
  return join("dist", file.replace(/\.(m?)ts$/, ".$1js"));
}
