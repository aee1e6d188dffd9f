import { gunzipSync } from "node:zlib";
import { Parser, type ReadEntry } from "tar";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";

/** Files of one npm package. */
const bounds = fixed({ packageFiles: 8_000 });

/** A package's own files, by their paths inside of it. */
export type TarballFiles = ReadonlyMap<string, Uint8Array>;

export type TarballLimits = Pick<Limits, "packageUnpackedBytes">;

/**
 * Reads the tarball of a package in memory, as npm would unpack it. Rejects with `TarballRefused` for what cannot be a
 * package, or is none that Berth takes: links and devices among its files, paths that lead out, more than the limits.
 */
export async function readTarball(bytes: Uint8Array, limits: TarballLimits): Promise<TarballFiles> {
  const { packageFiles } = bounds;
  const tar = unzipped(bytes, limits.packageUnpackedBytes);
  const files = new Map<string, Uint8Array>();
  let refused: TarballRefused | undefined;
  const refuse = (why: string): void => void (refused ??= new TarballRefused(why));
  const take = (entry: ReadEntry): void => {
    const { path } = entry;
    // As tar reads it: `package/./index.js` is `package/index.js`.
    const inside = path
      .split("/")
      .slice(1)
      .filter((part) => part !== ".")
      .join("/");
    const isFile = entry.type === "File" || entry.type === "OldFile" || entry.type === "ContiguousFile";
    if (!isFile && entry.type !== "Directory") refuse(`"${path}" in it is no file (${entry.type})`);
    else if (isFile && !isPlainPath(inside)) refuse(`"${path}" in it leads out of the package`);
    else if (isFile && files.size >= packageFiles) refuse(`it has more than ${packageFiles} files`);
    if (refused || !isFile) return entry.resume();
    const pieces: Uint8Array[] = [];
    entry.on("data", (piece: Uint8Array) => pieces.push(piece));
    entry.on("end", () => files.set(inside, pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)));
  };
  await new Promise<void>((resolve) => {
    const parser = new Parser({ strict: true, gzip: true, onReadEntry: take });
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

function unzipped(bytes: Uint8Array, bytesMax: number): Buffer {
  // Headers and the padding of files count as well.
  const maxOutputLength = 2 * bytesMax;
  let tar: Buffer;
  try {
    tar = gunzipSync(bytes, { maxOutputLength });
  } catch (error) {
    const isTooMuch = (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE";
    throw new TarballRefused(isTooMuch ? tooMuch(bytesMax) : "it is no gzip file");
  }
  if (tar.length > maxOutputLength) throw new TarballRefused(tooMuch(bytesMax));
  // The reader would unpack such a file again, without a limit.
  if (tar[0] === 0x1f && tar[1] === 0x8b) throw new TarballRefused("it is compressed twice");
  return tar;
}

function tooMuch(bytesMax: number): string {
  return `unpacked it has more than ${bytesMax} bytes (BERTH_PACKAGE_UNPACKED_BYTES)`;
}

function isPlainPath(path: string): boolean {
  const parts = path.split("/");
  return path !== "" && !/[\\\0]/.test(path) && !parts.some((part) => part === "" || part === "..");
}
