import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Installs the clients into a new folder, and gives the folder with a command for each, under the name that people use. */
export function installClients(clients, folder) {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  const packages = clients.map(({ package: name, version }) => `${name}@${version}`);
  // None needs the scripts of its packages: what they put in place for the shell is found without.
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", ...packages];
  const npm = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
  if (npm.status !== 0) throw new Error(`the clients could not be installed: ${npm.stderr ?? npm.error?.message}`);
  for (const { command, script } of clients) {
    const file = join(bin, command);
    writeFileSync(file, `#!/bin/sh\nexec '${process.execPath}' '${join(folder, "node_modules", script)}' "$@"\n`);
    chmodSync(file, 0o755);
  }
  return bin;
}
