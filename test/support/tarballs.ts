import { gzipSync } from "node:zlib";
import { Header } from "tar";
import { rawBlock, type Block } from "../../src/lib/cid.ts";
import type { LockedPackage, PackageSet } from "../../src/packages/package-set.ts";
import { sha512 } from "./registry.ts";

/** An entry of a tarball, which need not be one that npm writes. */
export interface TarEntry {
  /** With the first folder, `package/`. */
  readonly path: string;
  readonly text?: string;
  readonly type?: "File" | "Directory" | "SymbolicLink" | "Link" | "CharacterDevice" | "FIFO";
  readonly linkpath?: string;
}

/** A tarball, byte for byte the same each time. */
export function tarball(entries: readonly TarEntry[]): Uint8Array {
  return gzipSync(tarOf(entries));
}

export function tarOf(entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap(({ path, text = "", type = "File", linkpath }) => {
    const content = Buffer.from(text);
    const header = new Header({ path, type, size: content.length, mode: 0o644, mtime: new Date(0) });
    if (linkpath !== undefined) header.linkpath = linkpath;
    const head = Buffer.alloc(512);
    header.encode(head);
    return [head, content, Buffer.alloc((512 - (content.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A package by the texts of its files; its `package.json` gets name and version. */
export interface MadePackage {
  readonly manifest?: Readonly<Record<string, unknown>>;
  readonly files?: Readonly<Record<string, string>>;
  /** The names of what it may import. */
  readonly dependencies?: readonly string[];
}

/** A set of packages by place (`node_modules/a`) and version, with their tarballs by CID. */
export function packageSet(made: Readonly<Record<string, MadePackage & { readonly version?: string }>>): {
  readonly set: PackageSet;
  readonly tarballs: ReadonlyMap<string, Uint8Array>;
} {
  const blocks: Block[] = [];
  const packages = Object.entries(made).map(([place, { version = "1.0.0", manifest, files, dependencies }]) => {
    const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
    const texts = { "package.json": JSON.stringify({ name, version, ...manifest }), ...files };
    const block = rawBlock(tarball(Object.entries(texts).map(([path, text]) => ({ path: `package/${path}`, text }))));
    blocks.push(block);
    const locked: LockedPackage = {
      name,
      version,
      integrity: sha512(block.bytes),
      tarball: block.cid,
      ...(dependencies && { dependencies }),
    };
    return [place, locked] as const;
  });
  const direct = packages.filter(([place]) => !place.slice(1).includes("/node_modules/"));
  return {
    set: {
      dependencies: Object.fromEntries(direct.map(([, { name, version }]) => [name, version])),
      packages: Object.fromEntries(packages),
    },
    tarballs: new Map(blocks.map(({ cid, bytes }) => [cid, bytes])),
  };
}
