// The commands, bundled, since Node takes longer to load hundreds of small files than most commands for their work.
// dist/bin/berth.cjs is `berth` as it is installed: it starts the server that a command reaches, and meanwhile loads the
// command, from few files; in CommonJS, which Node loads sooner. The commands that serve have one file. dist/berth-mcp.mjs is
// those that reach upstreams, in one file, which needs Node and nothing else.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { writeLicenses } from "./licenses.mjs";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const BIN = "dist/bin";

/** @type {import("esbuild").BuildOptions} */
const common = {
  bundle: true,
  platform: "node",
  target: "node20.19",
  define: { BERTH_VERSION: JSON.stringify(version) },
  legalComments: "inline",
  logLevel: "warning",
};
/** CommonJS code asks for Node's modules by require. */
const REQUIRE =
  'import { createRequire as createRequireOfNode } from "node:module";\nconst require = createRequireOfNode(import.meta.url);\n';

// The names of most files are made of what is in them.
rmSync(BIN, { recursive: true, force: true });

await build({
  ...common,
  entryPoints: ["src/berth-mcp.ts"],
  outfile: "dist/berth-mcp.mjs",
  format: "esm",
  banner: { js: REQUIRE },
});
chmodSync("dist/berth-mcp.mjs", 0o755);

const loadedLater = {
  "./cli.ts": "./cli.mjs",
  "./serving-cli.ts": "./serving-cli.mjs",
  "./features/profiles/commands/reaching.ts": "./reaching.mjs",
};
const { metafile: first } = await build({
  ...common,
  metafile: true,
  entryPoints: ["src/berth.ts"],
  outfile: `${BIN}/berth.cjs`,
  format: "cjs",
  define: { ...common.define, "import.meta.url": "fileUrl" },
  banner: { js: 'const fileUrl = require("node:url").pathToFileURL(__filename).href;' },
  plugins: [
    {
      name: "loaded-later",
      setup: (building) =>
        building.onResolve({ filter: /\.ts$/ }, ({ path, kind }) =>
          kind === "dynamic-import" ? { path: loadedLater[path], external: true } : undefined,
        ),
    },
  ],
});
chmodSync(`${BIN}/berth.cjs`, 0o755);

/**
 * In a bundle in `folder`, a file still names its own place in dist/src: programs and threads that it starts stand there.
 *
 * @param {string} folder
 * @returns {import("esbuild").Plugin}
 */
function namesItself(folder) {
  return {
    name: "names-itself",
    setup: (building) =>
      building.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => {
        const contents = await readFile(path, "utf8");
        if (!contents.includes("import.meta.url")) return undefined;
        const url = `new URL(${JSON.stringify(relative(folder, compiledFile(path)))}, import.meta.url).href`;
        return { contents: contents.replaceAll("import.meta.url", url), loader: "ts" };
      }),
  };
}

/** @type {import("esbuild").BuildOptions} */
const commands = {
  ...common,
  outdir: BIN,
  entryNames: "[name]",
  outExtension: { ".js": ".mjs" },
  format: "esm",
  // Programs of their own, in part.
  external: ["better-sqlite3", "esbuild", "pg-native", "typescript"],
  plugins: [namesItself(BIN)],
};
const { outputFiles, metafile } = await build({
  ...commands,
  entryPoints: ["src/cli.ts", "src/features/profiles/commands/reaching.ts"],
  splitting: true,
  write: false,
  metafile: true,
});
mkdirSync(BIN, { recursive: true });
for (const { path, text } of outputFiles) {
  writeFileSync(path, text.includes("typeof require ") ? `${REQUIRE}${text}` : text);
}

// One file, though it is large: serving needs most of it, and starts with 14 % less CPU time than from the files above.
await build({ ...commands, entryPoints: ["src/serving-cli.ts"], banner: { js: REQUIRE } });

writeLicenses(BIN, Object.keys(metafile.inputs));

// Each Berth starts these, and from one file each they are ready sooner: the check process and the thread of the store.
const started = await Promise.all(
  ["src/host/checks/child.ts", "src/store/sqlite/store-worker.ts"].map((source) =>
    build({
      ...common,
      metafile: true,
      entryPoints: [source],
      outfile: compiledFile(source),
      format: "esm",
      external: ["better-sqlite3"],
      banner: { js: REQUIRE },
      plugins: [namesItself(dirname(compiledFile(source)))],
    }),
  ),
);

// Of dist/src only the programs and threads that the bundles start, and what these import, are packed. What is not compiled
// yet does not keep the commands from being bundled: a build comes before each package.
const metafiles = [first, metafile, ...started.map((each) => each.metafile)];
const bundled = metafiles.flatMap(({ inputs }) => Object.keys(inputs));
const packed = await startedBy(
  bundled
    .filter((file) => /^src\/.*\.ts$/.test(file))
    .map(compiledFile)
    .filter(existsSync),
);
const rules = ["*", "!*/", ...packed.map((file) => `!${file.slice("dist/src".length)}`)];
writeFileSync("dist/src/.npmignore", `${rules.join("\n")}\n`);

/** @param {string} source @returns {string} its place in dist */
function compiledFile(source) {
  return join("dist", relative(".", source)).replace(/\.(m?)ts$/, ".$1js");
}

/**
 * Code names a program, or a folder of programs, by `new URL("./name.js", import.meta.url)`.
 *
 * @param {readonly string[]} files of dist/src
 * @returns {Promise<string[]>} what these start, what that imports, and what that starts
 */
async function startedBy(files) {
  /** @type {Set<string>} */
  const known = new Set();
  let found = programsIn(files);
  while (found.some((file) => !known.has(file))) {
    for (const file of found) known.add(file);
    const { metafile: imported } = await build({
      entryPoints: [...known],
      outdir: "dist",
      bundle: true,
      platform: "node",
      format: "esm",
      packages: "external",
      logLevel: "warning",
      write: false,
      metafile: true,
    });
    const all = Object.keys(imported.inputs);
    found = [...all, ...programsIn(all)];
  }
  return [...known].sort();
}

/** @param {readonly string[]} files */
function programsIn(files) {
  return files.flatMap((file) => {
    const named = readFileSync(file, "utf8").matchAll(/new URL\("(\.\/[^"]+|\.)", import\.meta\.url\)/g);
    return Array.from(named, ([, path]) => join(dirname(file), path))
      .flatMap((path) => (path.endsWith("js") ? [path] : filesOf(path)))
      .filter((path) => /\.m?js$/.test(path));
  });
}

/** @param {string} folder */
function filesOf(folder) {
  return readdirSync(folder, { recursive: true }).map((name) => join(folder, name));
}
