// The commands that reach upstreams, bundled, since Node takes longer to load a hundred small files than they do for
// their work. dist/berth-mcp.mjs is all of them in one file, which needs Node and nothing else. dist/bin/berth.cjs is
// `berth` as it is installed: it starts the server that such a command reaches, and meanwhile loads the command, from
// few files; in CommonJS, which Node loads sooner. All other commands are those of dist/src.
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
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

await build({
  ...common,
  entryPoints: ["src/berth-mcp.ts"],
  outfile: "dist/berth-mcp.mjs",
  format: "esm",
  banner: { js: REQUIRE },
});
chmodSync("dist/berth-mcp.mjs", 0o755);

const loadedLater = { "./cli.ts": "../src/cli.js", "./commands/upstream/reaching.ts": "./reaching.mjs" };
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

const { outputFiles } = await build({
  ...common,
  entryPoints: ["src/commands/upstream/reaching.ts"],
  outdir: BIN,
  outExtension: { ".js": ".mjs" },
  format: "esm",
  splitting: true,
  write: false,
});
mkdirSync(BIN, { recursive: true });
for (const { path, text } of outputFiles) {
  writeFileSync(path, text.includes("typeof require ") ? `${REQUIRE}${text}` : text);
}
