import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/**
 * Installs Berth's tarball into an empty folder. Scripts of its dependencies do not run, so nothing is compiled; its own
 * script, if it has one, does.
 */
export function installTarball(tarball, folder, node = process.execPath) {
  const env = { ...process.env, PATH: [dirname(node), process.env.PATH].join(delimiter) };
  const npm = (cwd, ...args) => execFileSync("npm", args, { cwd, env, stdio: ["ignore", "ignore", "inherit"] });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"private":true}');
  npm(folder, "install", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", tarball);
  npm(join(folder, "node_modules/berth-mcp"), "run", "--if-present", "postinstall");
}
