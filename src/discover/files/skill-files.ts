import { posix } from "node:path";

/**
 * Which files of a definition belong to skills (SEP-2640): those in the folder beside its entry that has the entry's
 * name and ends in `.skills`. They are for clients: nothing in them is code of the definition. Knows paths only.
 */

/** `notes.skills` for `notes.ts`, and `lib/notes.skills` for `lib/notes.ts`. */
export function skillsFolder(entry: string): string {
  return `${entry.slice(0, entry.length - posix.extname(entry).length)}.skills`;
}

/** True for a file in a folder of skills, whichever definition it is beside. */
export function isSkillFile(path: string): boolean {
  return /(?:^|\/)[^/]+\.skills\//.test(path);
}

/** The file that makes its folder a skill. */
export const SKILL_FILE = "SKILL.md";

/** Files that systems and editors leave behind, and what is hidden on purpose, are no part of a skill. */
export function isHiddenName(name: string): boolean {
  return name.startsWith(".");
}
