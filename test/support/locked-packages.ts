import type { FetchPackages } from "../../src/image/folder-packages.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Sources } from "./image-sources.ts";
import { sha512 } from "./registry.ts";

/** A package that only a test knows: its tarball is a text, which no compiler of these tests reads. */
export interface TestPackage {
  readonly version?: string;
  readonly tarball?: string;
  readonly dependencies?: Record<string, string>;
  readonly os?: readonly string[];
  readonly hasInstallScript?: boolean;
}

const tarballOf = (name: string, { version = "1.0.0", tarball = `${name}@${version}` }: TestPackage): Uint8Array =>
  new TextEncoder().encode(tarball);

/** The files that npm would write for packages by name; `wanted` are those that the folder itself asks for. */
export function lockedSources(packages: Record<string, TestPackage>, wanted = Object.keys(packages)): Sources {
  const rangeOf = (name: string): string => `^${packages[name]!.version ?? "1.0.0"}`;
  const dependencies = Object.fromEntries(wanted.map((name) => [name, rangeOf(name)]));
  const lines = Object.entries(packages).map(([name, each]) => {
    const { tarball: _, version = "1.0.0", ...line } = each;
    const resolved = `https://registry.npmjs.org/${name}/-/${name.split("/").at(-1)}-${version}.tgz`;
    return [`node_modules/${name}`, { version, resolved, integrity: sha512(tarballOf(name, each)), ...line }] as const;
  });
  const lock = { lockfileVersion: 3, requires: true, packages: { "": { dependencies }, ...Object.fromEntries(lines) } };
  return { "package.json": { private: true, type: "module", dependencies }, "package-lock.json": lock };
}

/** A registry of these packages that counts what is fetched from it. */
export function countingFetch(packages: Record<string, TestPackage>): {
  fetch: FetchPackages;
  readonly fetched: string[];
} {
  const tarballs = new Map(
    Object.entries(packages).map(([name, each]) => [sha512(tarballOf(name, each)), tarballOf(name, each)]),
  );
  const fetched: string[] = [];
  const fetch: FetchPackages = async (set, have) => {
    const blocks = new Map<string, ReturnType<typeof rawBlock>>();
    for (const { name, integrity, os } of Object.values(set.packages)) {
      if (os) continue;
      const own = await have(integrity);
      if (!own) fetched.push(name);
      blocks.set(integrity, rawBlock(own ?? tarballs.get(integrity)!));
    }
    const placed = Object.entries(set.packages).map(([place, each]) => {
      const tarball = blocks.get(each.integrity)?.cid;
      return [place, tarball === undefined ? each : { ...each, tarball }] as const;
    });
    return { set: { ...set, packages: Object.fromEntries(placed) }, blocks: [...blocks.values()] };
  };
  return { fetch, fetched };
}
