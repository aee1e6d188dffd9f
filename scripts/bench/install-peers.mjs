import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Installs what Berth is measured against, in its own folder, once. Throws with npm's words where that fails. */
export function installPeers(say) {
  const folder = fileURLToPath(new URL("peers/", import.meta.url));
  if (existsSync(`${folder}node_modules/.package-lock.json`)) return;
  say("Installing the contestants into scripts/bench/peers, once (npm ci).");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, encoding: "utf8" });
  if (npm.status !== 0) throw new Error(`npm ci in ${folder} failed:\n${npm.stderr ?? npm.error?.message}`);
}
