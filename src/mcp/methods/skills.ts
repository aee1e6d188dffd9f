import type { ResourceContract, SkillContract } from "../../contract/contract.ts";
import { EXTENSION_SKILLS } from "../../contract/extensions.ts";
import { skillFolders } from "../../contract/skills.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import type { MethodCall } from "../protocol.ts";
import { requestedUri } from "./calls.ts";
import { toCursor, pageBounds, parseCursor } from "./lists.ts";

/** The skills extension (SEP-2640), for both eras. `skills/list` works like all other lists. */

/** Throws `method_not_found` for a server that does not declare the extension. */
export function checkSkills({ catalog, method }: Pick<MethodCall, "catalog" | "method">): void {
  if (catalog.contract.extensions?.[EXTENSION_SKILLS] === undefined) throw new BerthError("method_not_found", method);
}

/** The result of `skills/get`: the entry of a skill. */
export function requestedSkill({ catalog, params }: Pick<MethodCall, "catalog" | "params">): SkillContract {
  const uri = requestedUri({ params });
  const skill = catalog.contract.skills?.find((each) => each.uri === uri);
  if (!skill) throw new BerthError("invalid_params", `No skill is served at ${uri}`, { data: { uri } });
  return skill;
}

/** A page of the result of `resources/directory/read`: the direct children of a folder of a skill. */
export function folderPage({ catalog, params }: Pick<MethodCall, "catalog" | "params">): {
  readonly resources: readonly ResourceContract[];
  readonly nextCursor?: string;
} {
  const uri = requestedUri({ params });
  const { cursor } = params;
  const children = cachedFolders(catalog).get(uri);
  if (!children) throw new BerthError("invalid_params", `${uri} is not a folder of a skill`, { data: { uri } });
  const start = cursor === undefined ? 0 : parseCursor(cursor, FOLDER, children.length);
  let bytes = 0;
  const full = children.findIndex((child, index) => {
    if (index < start) return false;
    bytes += Buffer.byteLength(JSON.stringify(child));
    // An empty page would lead to itself.
    return index > start && bytes > pageBounds.listPageBytes;
  });
  const end = full < 0 ? children.length : full;
  return { resources: children.slice(start, end), ...(end < children.length && { nextCursor: toCursor(FOLDER, end) }) };
}

const FOLDER = "folder";

function cachedFolders({ contract, memo }: Catalog): ReturnType<typeof skillFolders> {
  const cached = memo.get(MEMO) as ReturnType<typeof skillFolders> | undefined;
  if (cached) return cached;
  const folders = skillFolders(contract);
  memo.set(MEMO, folders);
  return folders;
}

const MEMO = "skills:folders";
