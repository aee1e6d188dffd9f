import { readFileSync } from "node:fs";
import { join } from "node:path";
import { serverNameProblem, variableNameProblem } from "../entry/fields.ts";
import { isCid, matches, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { isDeeper, isObject, NESTING_MAX } from "../lib/json.ts";
import { printable } from "../lib/printable.ts";
import { cidFile, CONTENT_FOLDER, type Image, type ImageName, type Manifest } from "./image.ts";

/** Opens an image. Rejects with `image_invalid` unless its manifest is valid. Content is verified when it is read. */
export async function readImage(dir: string, name: ImageName): Promise<Image> {
  const content = (cid: Cid): Uint8Array => readContent(dir, cid);
  const cid = new TextDecoder().decode(readBytes(join(dir, cidFile(name)))).trim();
  if (!isCid(cid)) throw invalid(`${cidFile(name)} does not contain a CID`);
  const manifest = parseManifest(content(cid), cid);
  checkNames(manifest);
  return { name, cid, manifest, content };
}

/** Throws `image_invalid` with every name that is listed twice or invalid for a server or variable. */
export function checkNames({ servers, variables }: Manifest): void {
  const faults = [
    ...servers.map(({ name }) => serverNameProblem(name)),
    ...variables.map(({ name }) => variableNameProblem(name)),
    ...[servers, variables].flatMap(repeatedNames),
  ].filter((problem) => problem !== undefined);
  if (faults.length > 0) throw invalid(printable(faults.join("; ")));
}

/** With two meanings of one name, a check could read one and the store the other. */
function repeatedNames(names: Manifest["servers"]): string[] {
  const seen = new Set<string>();
  return names.flatMap(({ name }) => (seen.size === seen.add(name).size ? `"${name}" is listed twice` : []));
}

/** Reads everything that the image names. Throws `image_invalid` at the first missing or damaged content. */
export function verifyImage(image: Image): void {
  const { content, derived, servers, variables } = image.manifest;
  const listed = new Set(content);
  for (const { name, definition_cid: cid } of [...servers, ...variables]) {
    if (!listed.has(cid)) throw invalid(`"${name}" is ${cid}, which the manifest does not list`);
  }
  for (const cid of [...content, ...Object.values(derived)]) image.content(cid);
}

function readContent(dir: string, cid: Cid): Uint8Array {
  // Checked before it becomes a path: a manifest must not reach a file outside of the image.
  if (!isCid(cid)) throw invalid(`"${cid}" is not a CID`);
  const bytes = readBytes(join(dir, CONTENT_FOLDER, cid));
  if (!matches(cid, bytes)) throw invalid(`the bytes of ${cid} are damaged; run \`berth boot\` to generate them again`);
  return bytes;
}

export function parseManifest(bytes: Uint8Array, cid: Cid): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw invalid(`the manifest ${cid} is not JSON`, error);
  }
  if (!isManifest(value)) throw invalid(`${cid} is not the manifest of an image`);
  return value;
}

function isManifest(value: unknown): value is Manifest {
  if (!isObject(value) || isDeeper(value, NESTING_MAX)) return false;
  const { servers, variables, content, derived } = value;
  return (
    [servers, variables].every((names) => Array.isArray(names) && names.every(isManifestName)) &&
    Array.isArray(content) &&
    content.every((cid) => typeof cid === "string") &&
    isObject(derived) &&
    Object.values(derived).every((cid) => typeof cid === "string")
  );
}

function isManifestName(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { name, definition_cid: cid, enabled } = value;
  return typeof name === "string" && typeof cid === "string" && typeof enabled === "boolean";
}

function readBytes(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw invalid(`${file} cannot be read; run \`berth boot\` to generate the image`, error);
  }
}

function invalid(detail: string, cause?: unknown): BerthError {
  return new BerthError("image_invalid", detail, { cause });
}
