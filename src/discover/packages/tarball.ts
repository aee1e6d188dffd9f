import { gunzipSync } from "node:zlib";
import { Parser, type ReadEntry } from "tar";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";

/** The maximum number of files in one npm package. */
const bounds = fixed({ packageFiles: 8_000 });

/** A package's own files, by their paths inside of it. */
export type TarballFiles = ReadonlyMap<string, Uint8Array>;

export type TarballLimits = Pick<Limits, "packageUnpackedBytes">;

/** Unpacks a package in memory. Rejects with `TarballRefused` for links, devices, outside paths and excess sizes. */
export async function readTarball(bytes: Uint8Array, limits: TarballLimits): Promise<TarballFiles> {
  const { packageFiles } = bounds;
  const tar = gunzip(bytes, limits.packageUnpackedBytes);
  const files = new Map<string, Uint8Array>();
  let refused: TarballRefused | undefined;
  const refuse = (reason: string): void => void (refused ??= new TarballRefused(reason));
  const onEntry = (entry: ReadEntry): void => {
    const { path } = entry;
    // Like tar: `package/./index.js` is `package/index.js`.
    const inside = path
      .split("/")
      .slice(1)
      .filter((part) => part !== ".")
      .join("/");
    const isFile = entry.type === "File" || entry.type === "OldFile" || entry.type === "ContiguousFile";
    if (!isFile && entry.type !== "Directory") refuse(`"${path}" in it is not a regular file (${entry.type})`);
    else if (isFile && !isPlainPath(inside)) refuse(`"${path}" in it leads out of the package`);
    else if (isFile && files.size >= packageFiles) refuse(`it has more than ${packageFiles} files`);
    if (refused || !isFile) return entry.resume();
    const pieces: Uint8Array[] = [];
    entry.on("data", (piece: Uint8Array) => pieces.push(piece));
    entry.on("end", () => files.set(inside, pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)));
  };
  await new Promise<void>((resolve) => {
    const parser = new Parser({ strict: true, gzip: true, onReadEntry: onEntry });
    parser.on("error", (error: Error) => {
      refuse(`it is damaged (${error.message})`);
      resolve();
    });
    parser.on("end", () => resolve());
    parser.end(tar);
  });
  if (refused) throw refused;
  return files;
}

/** Completes "the tarball of name@version cannot be used: …". */
export class TarballRefused extends Error {}

function gunzip(bytes: Uint8Array, bytesMax: number): Buffer {
  // Headers and the padding of files count as well.
  const maxOutputLength = 2 * bytesMax;
  let tar: Buffer;
  try {
    tar = gunzipSync(bytes, { maxOutputLength });
  } catch (error) {
    const isTooLarge = (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE";
    throw new TarballRefused(isTooLarge ? explainSize(bytesMax) : "it is not a gzip file");
  }
  if (tar.length > maxOutputLength) throw new TarballRefused(explainSize(bytesMax));
  // The parser would decompress such a file again, without a limit.
  if (tar[0] === 0x1f && tar[1] === 0x8b) throw new TarballRefused("it is compressed twice");
  return tar;
}

function explainSize(bytesMax: number): string {
  return `it unpacks to more than ${bytesMax} bytes (BERTH_PACKAGE_UNPACKED_BYTES)`;
}

function isPlainPath(path: string): boolean {
  const parts = path.split("/");
  return path !== "" && !/[\\\0]/.test(path) && !parts.some((part) => part === "" || part === "..");
}
