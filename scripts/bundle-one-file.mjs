// Makes dist/berth-mcp.mjs: the commands that reach servers of others in one file, which needs Node and nothing else.
import { chmodSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));

await build({
  entryPoints: ["src/berth-mcp.ts"],
  outfile: "dist/berth-mcp.mjs",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  define: { BERTH_VERSION: JSON.stringify(version) },
  // What is written in CommonJS asks for the parts of Node by require.
  banner: {
    js: 'import { createRequire as createRequireOfNode } from "node:module";\nconst require = createRequireOfNode(import.meta.url);',
  },
  legalComments: "inline",
  logLevel: "warning",
});
chmodSync("dist/berth-mcp.mjs", 0o755);
