// Makes dist/reach/reaching.mjs: the commands that reach servers of others, in few files, each loaded when it is needed.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));

await build({
  entryPoints: ["src/commands/upstream/reaching.ts"],
  outdir: "dist/reach",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  define: { BERTH_VERSION: JSON.stringify(version) },
  // What is written in CommonJS asks for the parts of Node by require.
  banner: {
    js: 'import { createRequire as createRequireOfNode } from "node:module";\nconst require = createRequireOfNode(import.meta.url);',
  },
  legalComments: "linked",
  logLevel: "warning",
});
