import { decodePercent } from "../lib/decode-percent.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { mediaTypeFor } from "../lib/media-type.ts";
import type { Contract, ResourceContract, SkillContract } from "./contract.ts";
import { EXTENSION_SKILLS } from "./extensions.ts";

/** Skills as clients see them (SEP-2640, `io.modelcontextprotocol/skills`), and the folders of their files. */

/** The capability of a server that has its own skills. */
export const SKILLS_OFFERED: JsonObject = { [EXTENSION_SKILLS]: { directoryRead: true } };

/** A SKILL.md as a resource, for clients that do not support skills. */
export function skillResource({ uri, frontmatter: { name, description } }: SkillContract): ResourceContract {
  return { uri, name, description, mimeType: "text/markdown" };
}

/** The folders that contain the files of skills, by URI without a trailing slash, with the direct children of each. */
export function skillFolders({
  skills = [],
}: Pick<Contract, "skills">): ReadonlyMap<string, readonly ResourceContract[]> {
  const folders = new Map<string, Map<string, ResourceContract>>();
  const put = (child: ResourceContract): void => {
    const folder = parentFolder(child.uri);
    if (folder === undefined) return;
    const children = folders.get(folder);
    if (children) children.set(child.uri, child);
    else {
      folders.set(folder, new Map([[child.uri, child]]));
      put({ uri: folder, name: fileName(folder), mimeType: FOLDER_TYPE });
    }
  };
  for (const skill of skills) {
    if (skill.resources === "dynamic") continue;
    for (const { uri, size } of skill.resources) {
      const mimeType = mediaTypeFor(uri);
      put({ uri, name: fileName(uri), ...(mimeType !== undefined && { mimeType }), size });
    }
    put(skillResource(skill));
  }
  return new Map(Array.from(folders, ([uri, children]) => [uri, [...children.values()]]));
}

/** Every URI that belongs to a skill. */
export function skillUris({ skills = [] }: Pick<Contract, "skills">): string[] {
  return skills.flatMap(({ uri, resources }) => (resources === "dynamic" ? [uri] : resources.map((file) => file.uri)));
}

/** Finds the skills whose folder contains a URI, innermost first. The file need not be listed. */
export function skillFinder(skills: readonly SkillContract[]): (uri: string) => readonly SkillContract[] {
  const byFolder = new Map(skills.map((skill) => [skill.uri.slice(0, -"/SKILL.md".length), skill]));
  // Whatever the URI, it is compared once per length of a folder's URI.
  const lengths = [...new Set([...byFolder.keys()].map(({ length }) => length))].sort((one, other) => other - one);
  return (uri) => lengths.flatMap((length) => (uri[length] === "/" ? (byFolder.get(uri.slice(0, length)) ?? []) : []));
}

const FOLDER_TYPE = "inode/directory";

/** Undefined for a URI with nothing above it but its scheme. */
function parentFolder(uri: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*:\/\/[^/].*)\/[^/]+$/is.exec(uri)?.[1];
}

function fileName(uri: string): string {
  return decodePercent(uri.slice(uri.lastIndexOf("/") + 1));
}

/** Why hosts must refuse an entry, as the end of "it is left out: …"; undefined for a valid one. */
export function findSkillFault(entry: unknown): string | undefined {
  if (!isObject(entry) || typeof entry["uri"] !== "string") return "it has no URI";
  const { uri, frontmatter, resources } = entry;
  if (!isObject(frontmatter)) return "it has no frontmatter";
  const { name, description } = frontmatter;
  if (typeof name !== "string" || typeof description !== "string")
    return "its frontmatter has no name or no description";
  if (!uri.endsWith(`/${name}/SKILL.md`) && !uri.endsWith(`://${name}/SKILL.md`))
    return `its URI does not end in /${name}/SKILL.md`;
  if (resources === "dynamic") return undefined;
  if (!Array.isArray(resources)) return "its files are not listed";
  if (resources.length > SKILL_FILES_MAX) return `it has more than ${SKILL_FILES_MAX} files`;
  const root = uri.slice(0, -"SKILL.md".length);
  const isFile = (file: unknown): boolean =>
    isObject(file) &&
    typeof file["uri"] === "string" &&
    file["uri"].startsWith(root) &&
    typeof file["digest"] === "string" &&
    /^sha256:[0-9a-f]{64}$/.test(file["digest"]) &&
    Number.isSafeInteger(file["size"]) &&
    (file["size"] as number) >= 0;
  if (!resources.every(isFile)) return "one of its files has no URI in its folder, no digest or no size";
  return resources.some((file: { uri: string }) => file.uri === uri)
    ? undefined
    : "its SKILL.md is not among its files";
}

/** The number that every host accepts, and that no server should exceed (SEP-2640). */
const SKILL_FILES_MAX = 512;
