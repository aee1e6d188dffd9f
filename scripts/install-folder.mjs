import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Installs a folder with a package and lock of its own, apart from the product's: runs `npm ci` unless this lock is
 * installed already. Throws npm's message where it fails.
 *
 * @param {string} folder
 * @param {(line: string) => void} say called once, before the installation
 * @param {Record<string, string>} [env] for the scripts of packages
 */
export function installFolder(folder, say, env) {
  const stamp = join(folder, "node_modules", ".installed-lock");
  const files = ["package.json", "package-lock.json"].map((name) => readFileSync(join(folder, name)));
  const lock = createHash("sha256").update(Buffer.concat(files)).digest("hex");
  if (readOr(stamp) === lock) return;

  say(`installing ${folder} (npm ci, once)`);
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline"], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  if (npm.status !== 0) throw new Error(`npm ci in ${folder} failed: ${npm.stderr ?? npm.error?.message}`);
  writeFileSync(stamp, lock);
}

function readOr(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
