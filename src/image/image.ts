import type { Cid } from "../lib/cid.ts";

/**
 * The boot image: `reference_templates/` in content-addressed form. This folder owns `boot/`: how it is generated,
 * written, checked, read and applied to a store. It must not know how a server is served, and reads no source outside
 * of the folder of sources.
 *
 *   boot/mcps.json             the value of the variable `mcps`, every file replaced by its CID
 *   boot/<name>.boot.json      the manifest, to be read by people
 *   boot/<name>.boot.cid       the CID of the manifest, from which every reader starts
 *   boot/content/<cid>         the bytes behind every CID, manifests included
 *   boot/image.lock.json       which result was compiled from which source, so that only changes are processed again
 */
export const imageNames = ["default", "readonly"] as const;
export type ImageName = (typeof imageNames)[number];

export const CONTENT_FOLDER = "content";
export const LOCK_FILE = "image.lock.json";
/** Also the source of the same name in a user's own folder, with file names where the image has CIDs. */
export const MCPS_FILE = "mcps.json";
export const manifestFile = (name: ImageName): string => `${name}.boot.json`;
export const cidFile = (name: ImageName): string => `${name}.boot.cid`;

/** The source files of an image. A user's own folder has `mcps.json` instead, for both images. */
export const MCPS_SOURCE = "mcps.source.json";
/** The lock next to it, which pins the upstreams that it names. Written by `berth mcp lock`. */
export const UPSTREAMS_LOCK = "upstreams.lock.json";
/** The npm packages that definitions may import, and npm's lock for them. Both are written by npm. */
export const PACKAGE_JSON = "package.json";
export const PACKAGE_LOCK = "package-lock.json";
export const bootSource = (name: ImageName): string => `${name}.boot.source.json`;

/** The file of a folder that lists its servers. `has` tells whether the folder has a file of that name. */
export function findServerList(has: (name: string) => boolean): typeof MCPS_SOURCE | typeof MCPS_FILE | undefined {
  if (has(MCPS_SOURCE)) return MCPS_SOURCE;
  // With a boot source, it is a whole folder of sources whose list is missing.
  return !imageNames.some((name) => has(bootSource(name))) && has(MCPS_FILE) ? MCPS_FILE : undefined;
}

/** The contents of an image. Its dag-json CID is the image's version. Lists are sorted. */
export interface Manifest {
  readonly servers: readonly ManifestName[];
  readonly variables: readonly ManifestName[];
  /** All content that the names reach, bundles included. */
  readonly content: readonly Cid[];
  /** Compile key → compiled result, for every definition and transform. */
  readonly derived: Readonly<Record<string, Cid>>;
}

interface ManifestName {
  readonly name: string;
  readonly definition_cid: Cid;
  readonly enabled: boolean;
}

/** An image on the disk, with its manifest verified. */
export interface Image {
  readonly name: ImageName;
  readonly cid: Cid;
  readonly manifest: Manifest;
  /** Bytes of the image, verified when they are read. Throws `image_invalid` if they are missing or do not match. */
  content(cid: Cid): Uint8Array;
}

/** The record of a server's name in a store, stored as a dag-json block. */
export interface ServerRecord {
  readonly definition: Cid;
  readonly enabled: boolean;
}
