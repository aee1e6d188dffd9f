import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { changeFixed } from "../../dist/src/limits/fixed.js";
import { defaultLimits } from "../../dist/src/limits/limits.js";
import { readLock } from "../../dist/src/packages/lock.js";
import { openNpm } from "../../dist/src/packages/npm.js";
import { typesOf } from "../../dist/src/packages/package-name.js";

const folder = fileURLToPath(new URL(".", import.meta.url));

/** All of them together are more than anybody's definitions import. */
const PACKAGES_MAX = 5_000;
const limits = { ...defaultLimits, packageSetBytes: 2 ** 31 };

/**
 * The set of `package-lock.json` in this folder, or the part of it that `names` lead to, with its tarballs: from npm's
 * cache, or from the registry. Nothing is installed.
 *
 * @param {readonly string[]} [names]
 * @returns {Promise<{ set: import("../../src/packages/package-set.ts").PackageSet,
 *   tarball: import("../../src/discover/compiler.ts").ReadTarball }>}
 */
export async function openSet(names) {
  const manifest = JSON.parse(read("package.json"));
  const wanted = names && new Set(names.flatMap((name) => [name, typesOf(name)]));
  const kept = Object.entries(manifest.dependencies).filter(([name]) => wanted?.has(name) ?? true);
  const lone = names?.find((name) => !Object.hasOwn(manifest.dependencies, name));
  if (lone !== undefined) throw new Error(`${lone} is not among the dependencies in scripts/packages/package.json`);
  const text = JSON.stringify({ ...manifest, dependencies: Object.fromEntries(kept) });
  const { set, problems } = readLock(
    { file: "package.json", text },
    { file: "package-lock.json", text: read("package-lock.json") },
    { packagesPerSet: PACKAGES_MAX },
  );
  if (!set) throw new Error(problems.map(({ message }) => message).join("\n"));
  const restore = changeFixed({ packagesPerSet: PACKAGES_MAX });
  const npm = openNpm({ mode: "own", folder, env: process.env, limits });
  try {
    const fetched = await npm.fetch(set, () => undefined);
    const tarballs = new Map(fetched.blocks.map(({ cid, bytes }) => [cid, bytes]));
    return { set: fetched.set, tarball: async (cid) => tarballs.get(cid) };
  } finally {
    await npm.close();
    restore();
  }
}

function read(name) {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}
