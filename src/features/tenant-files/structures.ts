import { sourceBounds } from "../../discover/discovery.ts";
import { parseManifest } from "../../image/read.ts";
import { canonicalJson } from "../../lib/canonical-json.ts";
import { decodeRecord, isCid, isStructure, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, NESTING_MAX } from "../../lib/json.ts";
import type { NamedChange } from "../../store/store.ts";

/** A sentence about what is wrong with a structure's bytes, whatever they represent. */
export function structureProblem(bytes: Uint8Array): string | undefined {
  if (nestingOf(bytes) > NESTING_MAX) return `it has more than ${NESTING_MAX} levels of lists and objects`;
  const value = parsed(bytes);
  if (value === undefined) return "it is not JSON";
  // Long structures are read in parts, which relies on this form.
  if (!Buffer.from(canonicalJson(value)).equals(bytes)) {
    return "it is not canonical JSON (members sorted by name, each once, no spaces)";
  }
  const { sourceFiles } = sourceBounds;
  const files = isObject(value) ? value["files"] : undefined;
  // A structure that may be a definition is read as a whole when it is served.
  if (isObject(files) && Object.keys(files).length > sourceFiles) {
    return `it has more than ${sourceFiles} files`;
  }
  return undefined;
}

/** A sentence about why content cannot be the value of a name of this kind. The content was checked before. */
export async function meaningProblem(
  kind: NamedChange["kind"],
  { cid, bytes }: { cid: Cid; bytes: Uint8Array },
  has: (cid: Cid) => Promise<boolean>,
): Promise<string | undefined> {
  if (kind === "variable") return undefined;
  const value = isStructure(cid) ? decodeRecord(bytes) : undefined;
  if (!isObject(value)) return "it is not a structure, or is longer than any structure that Berth writes";
  const isReference = (name: string): boolean => typeof value[name] === "string" && isCid(value[name]);
  const isReferenceOrNull = (name: string): boolean => value[name] === null || isReference(name);
  switch (kind) {
    case "server": {
      const isRight = isReference("definition") && typeof value["enabled"] === "boolean";
      return isRight ? undefined : "it must be { definition, enabled }";
    }
    case "release": {
      const isRight =
        ["definition", "bundle"].every(isReferenceOrNull) &&
        ["config", "contract"].every(isReference) &&
        (value["packages"] === undefined || isReference("packages"));
      return isRight ? undefined : "it must be { definition, bundle, config, contract }, with packages or without";
    }
    case "visibility": {
      const { hidden } = value;
      const isRight = Array.isArray(hidden) && hidden.every((name) => typeof name === "string");
      return isRight ? undefined : "it must be { hidden }, a list of names";
    }
    case "withdrawn": {
      const { withdrawn } = value;
      const isRight = Array.isArray(withdrawn) && withdrawn.every((cid) => typeof cid === "string" && isCid(cid));
      return isRight ? undefined : "it must be { withdrawn }, a list of CIDs";
    }
    case "upstream": {
      const isRight = ["definition", "approved", "observed"].every(isReference);
      return isRight ? undefined : "it must be { definition, approved, observed }";
    }
    case "image":
      return await manifestProblem(bytes, cid, has);
  }
}

/** The content of an applied image is not added again later, so it has to exist. */
async function manifestProblem(
  bytes: Uint8Array,
  cid: Cid,
  has: (cid: Cid) => Promise<boolean>,
): Promise<string | undefined> {
  try {
    for (const each of parseManifest(bytes, cid).content) {
      if (!(await has(each))) return `it refers to ${each}, which the file does not contain`;
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    return error.message;
  }
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown;
  } catch {
    return undefined;
  }
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const openings = new Set([0x5b, 0x7b]);
const closings = new Set([0x5d, 0x7d]);

/** The nesting of lists and objects, counted before parsing; arbitrary for bytes that are not JSON. */
function nestingOf(bytes: Uint8Array): number {
  let [level, deepest, isText] = [0, 0, false];
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]!;
    if (byte === QUOTE) isText = !isText;
    else if (isText) index += byte === BACKSLASH ? 1 : 0;
    else if (openings.has(byte)) deepest = Math.max(deepest, ++level);
    else if (closings.has(byte)) level--;
  }
  return deepest;
}
