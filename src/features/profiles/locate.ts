import { readdir, readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Contract } from "../../contract/contract.ts";
import { jsonBlock } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import {
  CONTRACT_FILE,
  META_FILE,
  metaProblems,
  profileNameProblem,
  toolProblems,
  type Profile,
  type ProfileMeta,
  type ProfileTool,
} from "./profile.ts";

/** A folder to search for profiles; the first one with a profile supplies all of it (J4). */
export interface ProfileFolder {
  readonly origin: Profile["origin"];
  readonly folder: string;
}

/** The most bytes in a file of a profile: a contract of 1,000 tools has less than half of that. */
export const PROFILE_FILE_BYTES_MAX = 4 * 1024 * 1024;

/** The project's own, the user's, and those that come with Berth (`BERTH_HOME`). */
export function profileFolders(env: NodeJS.ProcessEnv, cwd: string): ProfileFolder[] {
  const data = env["XDG_DATA_HOME"] || join(env["HOME"] || homedir(), ".local", "share");
  const folders: ProfileFolder[] = [
    { origin: "project", folder: join(cwd, ".berth", "profiles", "mcp") },
    { origin: "user", folder: join(data, "berth", "profiles", "mcp") },
  ];
  const bundled = env["BERTH_HOME"];
  if (bundled) folders.push({ origin: "bundled", folder: join(resolve(bundled), "profiles", "mcp") });
  return folders;
}

/** Every profile's name and the folder that supplies it, sorted. */
export async function listProfiles(folders: readonly ProfileFolder[]): Promise<(ProfileFolder & { name: string })[]> {
  const found = new Map<string, ProfileFolder & { name: string }>();
  for (const { origin, folder } of folders) {
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      const { name } = entry;
      if (!entry.isDirectory() || profileNameProblem(name, "profile") || found.has(name)) continue;
      if (await readJson(join(folder, name, META_FILE))) found.set(name, { name, origin, folder: join(folder, name) });
    }
  }
  return [...found.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
}

/** Reads a profile. Rejects with `profile_not_found`, or `profile_invalid` with every problem (data: `problems`). */
export async function readProfile(name: string, folders: readonly ProfileFolder[]): Promise<Profile> {
  const wrong = profileNameProblem(name, "profile");
  if (wrong) throw new BerthError("profile_not_found", wrong);
  for (const { origin, folder } of folders) {
    const own = join(folder, name);
    const meta = await readJson(join(own, META_FILE));
    if (!meta) continue;
    const profile = await readWhole({ name, origin, folder: own }, meta);
    return origin === "project" ? withHidden(profile, folders) : profile;
  }
  const names = (await listProfiles(folders)).map((each) => `@${each.name}`);
  const known = names.length === 0 ? "there are no profiles yet" : `there are ${names.join(", ")}`;
  throw new BerthError("profile_not_found", `"@${name}"; ${known}`);
}

/** Warns if a project's profile is used instead of the user's own of the same name. */
async function withHidden(profile: Profile, folders: readonly ProfileFolder[]): Promise<Profile> {
  for (const { origin, folder } of folders) {
    if (origin === "project" || !(await readJson(join(folder, profile.name, META_FILE)))) continue;
    const message = `the project's profile is used in place of the one in ${join(folder, profile.name)}`;
    const problem: Problem = { code: "hides-profile", message, severity: "warning", file: META_FILE };
    return { ...profile, problems: [problem, ...profile.problems] };
  }
  return profile;
}

async function readWhole(place: Pick<Profile, "name" | "origin" | "folder">, meta: ReadJson): Promise<Profile> {
  const problems: Problem[] = [
    ...meta.problems,
    ...(meta.problems.length === 0 ? metaProblems(meta.value, META_FILE) : []),
  ];
  const tools = new Map<string, ProfileTool>();
  for (const file of (await readdir(place.folder)).sort()) {
    const tool = file.endsWith(".json") ? file.slice(0, -".json".length) : "";
    if (tool === "" || profileNameProblem(tool, "tool")) continue;
    const read = (await readJson(join(place.folder, file))) ?? { value: null, problems: [] };
    problems.push(...read.problems, ...(read.problems.length === 0 ? toolProblems(read.value, file) : []));
    tools.set(tool, read.value as ProfileTool);
  }
  const contract = await readJson(join(place.folder, CONTRACT_FILE));
  if (contract) problems.push(...contract.problems);
  if (problems.length > 0) {
    const { file, pointer = "", message } = problems[0]!;
    const where = `${join(place.folder, file ?? "")} ${pointer}`.trimEnd();
    throw new BerthError("profile_invalid", `@${place.name}: ${where}: ${message}`, { data: { problems } });
  }
  const profile = { ...place, meta: meta.value as ProfileMeta, tools };
  if (!contract) return { ...profile, problems: [] };
  const wrong = contractProblem(contract.value, profile.meta);
  if (wrong === undefined) return { ...profile, contract: contract.value as unknown as Contract, problems: [] };
  const problem: Problem = { code: "wrong-contract", message: wrong, severity: "warning", file: CONTRACT_FILE };
  return { ...profile, problems: [problem] };
}

/** A contract other than the one that the profile names proves nothing, and is ignored. */
function contractProblem(value: Json, { contract_cid: expected }: ProfileMeta): string | undefined {
  const aside = "it is left out; `berth profile update` fetches the server's own";
  if (!isContract(value)) return `This is not a server's contract: ${aside}`;
  const { cid } = jsonBlock(value);
  if (expected === undefined || cid === expected) return undefined;
  return `This contract has the CID ${cid}, but the profile was made against ${expected}; ${aside}`;
}

interface ReadJson {
  readonly value: Json;
  readonly problems: Problem[];
}

/** Undefined if there is no such file. */
async function readJson(path: string): Promise<ReadJson | undefined> {
  const file = path.slice(path.lastIndexOf("/") + 1);
  const bad = (code: string, message: string): ReadJson => ({
    value: null,
    problems: [{ code, message, severity: "error", file }],
  });
  let text: string;
  try {
    const stats = await stat(path);
    if (!stats.isFile()) return bad("unreadable-file", "This is not a plain file");
    if (stats.size > PROFILE_FILE_BYTES_MAX) {
      return bad("too-large", `The file has more than ${PROFILE_FILE_BYTES_MAX} bytes`);
    }
    text = await readFile(path, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    return bad("unreadable-file", `The file cannot be read: ${code ?? message}`);
  }
  try {
    return { value: JSON.parse(text) as Json, problems: [] };
  } catch (error) {
    return bad("invalid-json", `This is not JSON: ${(error as Error).message}`);
  }
}

function isContract(value: Json): boolean {
  if (!isObject(value)) return false;
  const keys = { tools: "name", resources: "uri", resourceTemplates: "uriTemplate", prompts: "name" };
  const hasLists = Object.entries(keys).every(([list, key]) => {
    const items = value[list];
    return Array.isArray(items) && items.every((item) => isObject(item) && typeof item[key] === "string");
  });
  return hasLists && (value["tools"] as JsonObject[]).every(({ inputSchema }) => isObject(inputSchema));
}
