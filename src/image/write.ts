import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isCid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { GeneratedImage } from "./generate.ts";
import { CONTENT_FOLDER, LOCK_FILE } from "./image.ts";

const UNFINISHED = ".unfinished-";

/**
 * Updates a folder to a generated image. Whenever the process ends, each image there is readable and either the old or
 * the new one: content is written first, then the `.cid` from which readers start, and content that no image names is
 * removed last.
 */
export function writeImage(out: string, image: GeneratedImage): void {
  refuseForeignFolder(out);
  const contentFolder = join(out, CONTENT_FOLDER);
  mkdirSync(contentFolder, { recursive: true });
  const existing = new Set(readdirSync(contentFolder));
  for (const [cid, bytes] of image.content) {
    const file = join(contentFolder, cid);
    // No reader uses a new name before a `.cid` leads to it, so its file may be incomplete.
    if (existing.has(cid)) replace(file, bytes);
    else writeFileSync(file, bytes);
  }
  for (const [file, bytes] of image.files) replace(join(out, file), bytes);

  for (const name of readdirSync(contentFolder)) {
    if (!image.content.has(name)) rmSync(join(contentFolder, name), { recursive: true, force: true });
  }
  for (const name of readdirSync(out)) if (name.startsWith(UNFINISHED)) rmSync(join(out, name), { force: true });
}

export interface Difference {
  readonly file: string;
  readonly is: "missing" | "extra" | "different";
}

/** Every file of a folder that differs from the generated image, byte for byte. */
export function compareImage(out: string, image: GeneratedImage): Difference[] {
  const expected = new Map(image.files);
  for (const [cid, bytes] of image.content) expected.set(`${CONTENT_FOLDER}/${cid}`, bytes);

  const differences: Difference[] = [];
  for (const [file, bytes] of expected) {
    const current = read(join(out, file));
    if (!current) differences.push({ file, is: "missing" });
    else if (!current.equals(bytes)) differences.push({ file, is: "different" });
  }
  for (const name of list(join(out, CONTENT_FOLDER))) {
    if (!image.content.has(name)) differences.push({ file: `${CONTENT_FOLDER}/${name}`, is: "extra" });
  }
  for (const name of list(out)) if (name.startsWith(UNFINISHED)) differences.push({ file: name, is: "extra" });
  return differences;
}

/** Content that no image names is removed from `content/`, so a folder with other files is refused. */
function refuseForeignFolder(out: string): void {
  if (existsSync(join(out, LOCK_FILE))) return;
  const foreignFiles = list(join(out, CONTENT_FOLDER)).filter((name) => !isCid(name) && !name.startsWith(UNFINISHED));
  if (foreignFiles.length === 0) return;
  const reason = `${join(out, CONTENT_FOLDER)} contains files that do not belong to an image (${foreignFiles[0]}); choose another --out`;
  throw new BerthError("image_invalid", reason);
}

/** At any moment, the name refers to the old file or to the complete new one. */
function replace(file: string, bytes: Uint8Array): void {
  const current = read(file);
  if (current?.equals(bytes)) return;
  if (existsSync(file) && !current) rmSync(file, { recursive: true });
  const unfinished = join(dirname(file), `${UNFINISHED}${process.pid}`);
  writeFileSync(unfinished, bytes);
  renameSync(unfinished, file);
}

function read(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
