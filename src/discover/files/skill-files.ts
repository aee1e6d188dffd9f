import { posix } from "node:path";

/** Files in `<entry>.skills/` belong to skills (SEP-2640): they are for clients, not code. Works on paths only. */

/** `notes.skills` for `notes.ts`, and `lib/notes.skills` for `lib/notes.ts`. */
export function skillsFolder(entry: string): string {
  return `${entry.slice(0, entry.length - posix.extname(entry).length)}.skills`;
}

/** True for a file in a folder of skills, of any definition. */
export function isSkillFile(path: string): boolean {
  return /(?:^|\/)[^/]+\.skills\//.test(path);
}

/** The file that makes its folder a skill. */
export const SKILL_FILE = "SKILL.md";

/** Files left behind by systems and editors, or hidden on purpose, are not part of a skill. */
export function isHiddenName(name: string): boolean {
  return name.startsWith(".");
}
