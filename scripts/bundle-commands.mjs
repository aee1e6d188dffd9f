// The commands that reach servers of others, bundled twice: dist/berth-mcp.mjs is all of them in one file, which needs
// Node and nothing else; dist/reach is few files, each loaded when it is needed.
import { chmodSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));

/** @type {import("esbuild").BuildOptions} */
const common = {
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  define: { BERTH_VERSION: JSON.stringify(version) },
  // What is written in CommonJS asks for the parts of Node by require.
  banner: {
    js: 'import { createRequire as createRequireOfNode } from "node:module";\nconst require = createRequireOfNode(import.meta.url);',
  },
  logLevel: "warning",
};

await build({
  ...common,
  entryPoints: ["src/berth-mcp.ts"],
  outfile: "dist/berth-mcp.mjs",
  legalComments: "inline",
});
chmodSync("dist/berth-mcp.mjs", 0o755);

await build({
  ...common,
  entryPoints: ["src/commands/upstream/reaching.ts"],
  outdir: "dist/reach",
  outExtension: { ".js": ".mjs" },
  splitting: true,
  legalComments: "linked",
});
