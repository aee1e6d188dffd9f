import { randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/**
 * Files that contain a key: readable only by their owner, complete or absent, and on disk before anything relies on
 * them. Knows nothing of their content.
 */

/** Undefined if there is no such file. */
export function readKeyFile(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Returns the final content of the file: `bytes`, or what another process wrote first. */
export function createKeyFile(file: string, bytes: Uint8Array): Buffer {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  publish(file, bytes, (draft) => {
    try {
      linkSync(draft, file);
    } catch (error) {
      // Some file systems have no hard links; there, processes that start simultaneously for the first time may differ.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") renameSync(draft, file);
    }
  });
  return readFileSync(file);
}

export function replaceKeyFile(file: string, bytes: Uint8Array): void {
  publish(file, bytes, (draft) => renameSync(draft, file));
}

function publish(file: string, bytes: Uint8Array, moveToPlace: (draft: string) => void): void {
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    const descriptor = openSync(draft, "wx", 0o600);
    try {
      writeSync(descriptor, bytes);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    moveToPlace(draft);
    syncFolder(dirname(file));
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Without this, a power cut may lose the file name. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
