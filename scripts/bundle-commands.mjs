// The commands, bundled, since Node takes longer to load hundreds of small files than most commands for their work.
// dist/bin/berth.cjs is `berth` as it is installed: it starts the server that a command reaches, and meanwhile loads the
// command, from few files; in CommonJS, which Node loads sooner. dist/berth-mcp.mjs is those that reach upstreams, in one
// file, which needs Node and nothing else.
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { build } from "esbuild";

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

const loadedLater = { "./cli.ts": "./cli.mjs", "./commands/upstream/reaching.ts": "./reaching.mjs" };
await build({
  ...common,
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
        const compiled = join("dist", relative(".", path)).replace(/\.ts$/, ".js");
        const url = `new URL(${JSON.stringify(relative(folder, compiled))}, import.meta.url).href`;
        return { contents: contents.replaceAll("import.meta.url", url), loader: "ts" };
      }),
  };
}

const { outputFiles, metafile } = await build({
  ...common,
  entryPoints: ["src/cli.ts", "src/commands/upstream/reaching.ts"],
  outdir: BIN,
  entryNames: "[name]",
  outExtension: { ".js": ".mjs" },
  format: "esm",
  splitting: true,
  write: false,
  metafile: true,
  // Programs of their own, in part.
  external: ["better-sqlite3", "esbuild", "pg-native", "typescript"],
  plugins: [namesItself(BIN)],
});
mkdirSync(BIN, { recursive: true });
for (const { path, text } of outputFiles) {
  writeFileSync(path, text.includes("typeof require ") ? `${REQUIRE}${text}` : text);
}

writeFileSync(join(BIN, "LICENSES.txt"), licensesOf(Object.keys(metafile.inputs)));

// Each Berth starts this program of its own, and it is ready so much sooner.
const CHECKS = "dist/src/host/checks";
await build({
  ...common,
  entryPoints: ["src/host/checks/child.ts"],
  outfile: `${CHECKS}/child.js`,
  format: "esm",
  banner: { js: REQUIRE },
  plugins: [namesItself(CHECKS)],
});

/** The licenses of the packages that these files are of, as each of them asks for where its code is copied. */
function licensesOf(files) {
  const folders = files.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
  const texts = [...new Set(folders)]
    .sort((one, other) => (one < other ? -1 : 1))
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const own = readdirSync(folder)
        .filter((file) => /^(?:licen[cs]e|notice)/i.test(file))
        .map((file) => readFileSync(join(folder, file), "utf8").trim());
      return [`${name} ${version} (${license})`, ...own].join("\n\n");
    });
  return `The files beside this one contain code of these packages.\n\n${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}
