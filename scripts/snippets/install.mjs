import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const NODE_24 = resolve("test/clients/node_modules/.bin/node");

/** Installs the clients into a new folder; returns the folder with a command for each, under its usual name. */
export function installClients(clients, folder) {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  npmInstall(folder, ...clients.map(({ package: name, version }) => `${name}@${version}`));
  for (const { command, script, program, within, needsNode24, drops = 0 } of clients) {
    if (within !== undefined) npmInstall(join(folder, "node_modules", within), "--omit=dev");
    const file = join(bin, command);
    const node = needsNode24 ? NODE_24 : process.execPath;
    const started =
      program === undefined ? [node, join(folder, "node_modules", script)] : [join(folder, "node_modules", program)];
    const quoted = started.map((word) => `'${word}'`).join(" ");
    writeFileSync(file, `#!/bin/sh\n${drops > 0 ? `shift ${drops}\n` : ""}exec ${quoted} "$@"\n`);
    chmodSync(file, 0o755);
  }
  return bin;
}

/** None needs its packages' install scripts: the files that those would link are found without. */
function npmInstall(cwd, ...more) {
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", ...more];
  const npm = spawnSync("npm", args, { cwd, encoding: "utf8" });
  if (npm.status !== 0) throw new Error(`the clients could not be installed: ${npm.stderr ?? npm.error?.message}`);
}
