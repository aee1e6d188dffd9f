import type { ResourceContract, SkillContract } from "../../contract/contract.ts";
import { EXTENSION_SKILLS } from "../../contract/extensions.ts";
import { skillFolders } from "../../contract/skills.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import type { MethodCall } from "../protocol.ts";
import { uriOf } from "./calls.ts";
import { cursorOf, pageBounds, startOf } from "./lists.ts";

/** The skills extension (SEP-2640), as both eras carry it out. `skills/list` is a list as all others. */

/** Throws `method_not_found` for a server that does not declare the extension: then its methods do not exist for clients. */
export function checkSkills({ catalog, method }: Pick<MethodCall, "catalog" | "method">): void {
  if (catalog.contract.extensions?.[EXTENSION_SKILLS] === undefined) throw new BerthError("method_not_found", method);
}

/** The result of `skills/get`: the entry of a skill. */
export function requestedSkill({ catalog, params }: Pick<MethodCall, "catalog" | "params">): SkillContract {
  const uri = uriOf({ params });
  const skill = catalog.contract.skills?.find((each) => each.uri === uri);
  if (!skill) throw new BerthError("invalid_params", `No skill is served at ${uri}`, { data: { uri } });
  return skill;
}

/** A page of what `resources/directory/read` gives: what is directly in a folder of a skill. */
export function folderPage({ catalog, params }: Pick<MethodCall, "catalog" | "params">): {
  readonly resources: readonly ResourceContract[];
  readonly nextCursor?: string;
} {
  const uri = uriOf({ params });
  const { cursor } = params;
  const children = foldersOf(catalog).get(uri);
  if (!children) throw new BerthError("invalid_params", `${uri} is no folder of a skill`, { data: { uri } });
  const start = cursor === undefined ? 0 : startOf(cursor, FOLDER, children.length);
  let bytes = 0;
  const full = children.findIndex((child, index) => {
    if (index < start) return false;
    bytes += Buffer.byteLength(JSON.stringify(child));
    // A page without an item would lead to itself.
    return index > start && bytes > pageBounds.listPageBytes;
  });
  const end = full < 0 ? children.length : full;
  return { resources: children.slice(start, end), ...(end < children.length && { nextCursor: cursorOf(FOLDER, end) }) };
}

const FOLDER = "folder";

/** Read from the contract once. */
function foldersOf({ contract, memo }: Catalog): ReturnType<typeof skillFolders> {
  const known = memo.get(MEMO) as ReturnType<typeof skillFolders> | undefined;
  if (known) return known;
  const folders = skillFolders(contract);
  memo.set(MEMO, folders);
  return folders;
}

const MEMO = "skills:folders";
