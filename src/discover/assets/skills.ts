import { createHash } from "node:crypto";
import { posix } from "node:path";
import { parseDocument, visit, type Document } from "yaml";
import { codeFrame, positionAt } from "../../lib/code-frame.ts";
import { cutText } from "../../lib/cut-text.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { compareText } from "../../lib/pretty-json.ts";
import type { Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import type { DefinitionSource, DiscoveredSkill, SkillFrontmatter } from "../discovery.ts";
import { isBinary } from "../files/resolve.ts";
import { isHiddenName, isSkillFile, SKILL_FILE, skillsFolder } from "../files/skill-files.ts";

const bounds = fixed({
  /** Files of one skill, and their bytes, which every host must accept (SEP-2640). */
  skillFiles: 512,
  skillBytes: 16 * 1024 * 1024,
  /** The frontmatter of a skill, which is part of lists. */
  skillFrontmatterBytes: 16 * 1024,
});

/**
 * Finds the skills of a definition: each folder with a SKILL.md in its folder of skills. The frontmatter must follow
 * the Agent Skills specification; an invalid skill is left out with its problem, and the others are returned.
 */
export function findSkills({ entry, files }: Pick<DefinitionSource, "entry" | "files">): {
  readonly skills: readonly DiscoveredSkill[];
  readonly problems: readonly Problem[];
} {
  const folder = skillsFolder(entry);
  const problems: Problem[] = [];
  const own: string[] = [];
  for (const path of Object.keys(files).filter(isSkillFile).sort(compareText)) {
    const reason = path.startsWith(`${folder}/`) ? findPathFault(path.slice(folder.length + 1)) : explainFolder(folder);
    if (reason === undefined) own.push(path);
    else problems.push(fault(path, "unused-skill-file", `It is not served: ${reason}`, "warning"));
  }
  const roots = own
    .filter((path) => posix.basename(path) === SKILL_FILE && posix.dirname(path) !== folder)
    .map((path) => posix.dirname(path));
  const isInside = (root: string) => (path: string) => path.startsWith(`${root}/`);
  for (const path of own) if (!roots.some((root) => isInside(root)(path))) problems.push(orphanProblem(path, folder));

  const skills = roots.flatMap((root) => {
    const file = `${root}/${SKILL_FILE}`;
    const listed = own.filter(isInside(root)).map((path) => {
      const text = files[path]!;
      const bytes = Buffer.from(text, isBinary(path) ? "base64" : "utf8");
      const digest = createHash("sha256").update(bytes).digest("hex");
      return { path: path.slice(root.length + 1), digest, size: bytes.length };
    });
    const read = readFrontmatter(file, files[file]!);
    const skillProblems = [
      ...sizeProblems(file, listed),
      ...("problems" in read ? read.problems : frontmatterProblems(file, files[file]!, read)),
    ];
    problems.push(...skillProblems);
    if ("problems" in read || skillProblems.some(({ severity }) => severity === "error")) return [];
    return [{ path: root.slice(folder.length + 1), frontmatter: read.value as SkillFrontmatter, files: listed }];
  });
  return { skills, problems };
}

function explainFolder(folder: string): string {
  return `the skills of this definition are in ${folder}/`;
}

/** Why a path cannot become a URI that every host can convert back to a file name. */
function findPathFault(path: string): string | undefined {
  const names = path.split("/");
  const hidden = names.find(isHiddenName);
  if (hidden !== undefined) return `names that begin with a dot are ignored, such as "${hidden}"`;
  if (/[\p{Cc}\p{Cs}]/u.test(path)) return "its name has characters that file names cannot contain";
  return names.some((name) => Buffer.byteLength(name) > NAME_BYTES_MAX)
    ? `a name has at most ${NAME_BYTES_MAX} bytes`
    : undefined;
}

/** The limit of most file systems. */
const NAME_BYTES_MAX = 255;

function orphanProblem(path: string, folder: string): Problem {
  const name = posix.basename(path);
  const message =
    name.toLowerCase() !== SKILL_FILE.toLowerCase()
      ? `It belongs to no skill: none of its parent folders has a ${SKILL_FILE}`
      : name === SKILL_FILE
        ? `A skill has a folder of its own: move it to ${folder}/<name of the skill>/${SKILL_FILE}`
        : `Rename it to ${SKILL_FILE}: hosts read no other name`;
  return fault(path, "unused-skill-file", message, "warning");
}

function sizeProblems(file: string, files: readonly { readonly size: number }[]): Problem[] {
  const { skillFiles, skillBytes } = bounds;
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const tooMany = `The skill has ${files.length} files; the limit is ${skillFiles}`;
  const tooLong = `The skill has ${bytes} bytes; the limit is ${skillBytes}`;
  return [
    ...(files.length > skillFiles ? [fault(file, "too-large", tooMany)] : []),
    ...(bytes > skillBytes ? [fault(file, "too-large", tooLong)] : []),
  ];
}

/** Parsed frontmatter, with its position and the positions of its fields in the file. */
interface Frontmatter {
  readonly value: JsonObject;
  readonly start: number;
  readonly document: Document.Parsed;
}

function readFrontmatter(file: string, text: string): Frontmatter | { readonly problems: readonly Problem[] } {
  const refuse = (message: string, offset = 0, length = 1) => ({
    problems: [problemAt(file, text, offset, length, "skill-frontmatter", message)],
  });
  const [opening] = /^---[ \t]*\r?\n/.exec(text) ?? [];
  if (opening === undefined) {
    return refuse(
      "A skill begins with its frontmatter: a line ---, the name and the description in YAML, and a line ---",
    );
  }
  const start = opening.length;
  const length = text.slice(start).search(/^---[ \t]*\r?$/m);
  if (length < 0) return refuse("The frontmatter has no end: write a line --- after its last field");
  const yaml = text.slice(start, start + length);
  const bytes = Buffer.byteLength(yaml);
  const { skillFrontmatterBytes } = bounds;
  if (bytes > skillFrontmatterBytes) {
    return refuse(
      `The frontmatter has ${bytes} bytes; the limit is ${skillFrontmatterBytes}: move text below it`,
      start,
    );
  }
  try {
    const document = parseDocument(yaml, { version: "1.2", stringKeys: true, prettyErrors: false });
    const [error] = [...document.errors, ...document.warnings];
    if (error) {
      const [from, to] = error.pos;
      return refuse(`The frontmatter is not valid YAML: ${shorten(error.message)}`, start + from, to - from);
    }
    const unsupported = findUnsupportedNode(document);
    if (unsupported) return refuse(unsupported.message, start + unsupported.offset);
    const value: unknown = document.toJS();
    if (!isObject(value)) return refuse("The frontmatter must have fields, such as name: and description:", start);
    return { value: value as JsonObject, start, document };
  } catch (error) {
    // For example, nested too deeply.
    return refuse(`The frontmatter is not valid YAML: ${shorten(String(error))}`, start);
  }
}

/** The first part that JSON cannot express, or that other parsers may read differently: clients receive JSON. */
function findUnsupportedNode(
  document: Document.Parsed,
): { readonly message: string; readonly offset: number } | undefined {
  let result: { message: string; offset: number } | undefined;
  const report = (message: string, offset: number | undefined): symbol => {
    result = { message, offset: offset ?? 0 };
    return visit.BREAK;
  };
  visit(document, {
    Alias: (_key, { range }) =>
      report("Write the value again: the frontmatter of a skill cannot use aliases (*)", range?.[0]),
    Scalar(_key, { value, range }) {
      if (typeof value !== "number" || Number.isFinite(value)) return undefined;
      return report("Clients receive the frontmatter as JSON, which has no such number", range?.[0]);
    },
  });
  return result;
}

/** Checks each field against the Agent Skills specification: an error if clients must refuse the skill. */
function frontmatterProblems(file: string, text: string, { value, start, document }: Frontmatter): Problem[] {
  const at = (field: string, message: string, severity: Problem["severity"] = "error"): Problem => {
    const node = document.get(field, true) as { readonly range?: readonly [number, number, number] } | undefined;
    const [from, to] = node?.range ?? [0, 1];
    return { ...problemAt(file, text, start + from, to - from, "skill-frontmatter", message), severity };
  };
  const { name, description } = value;
  const folder = posix.basename(posix.dirname(file));
  const problems: Problem[] = [];
  if (typeof name !== "string")
    problems.push(at("name", `The frontmatter needs the name of the skill: name: ${folder}`));
  else if (!NAME.test(name) || name.length > NAME_UNITS_MAX) {
    const expected = `1 to ${NAME_UNITS_MAX} characters: a-z, 0-9 and single hyphens between them`;
    problems.push(at("name", `A skill's name must have ${expected}; "${shorten(name)}" does not`));
  } else if (name !== folder) {
    const hint = `rename the folder to "${name}", or write name: ${folder}`;
    problems.push(at("name", `The skill is named "${name}", but its folder "${shorten(folder)}": ${hint}`));
  }
  if (typeof description !== "string" || description.trim() === "") {
    problems.push(at("description", "The frontmatter needs a description: what the skill does, and when to use it"));
  } else if (Array.from(description).length > DESCRIPTION_CHARACTERS_MAX) {
    const has = `${Array.from(description).length} characters; the limit is ${DESCRIPTION_CHARACTERS_MAX}`;
    problems.push(at("description", `The description has ${has}: move the rest below the frontmatter`));
  }
  for (const [field, { expected, isValid }] of Object.entries(optional)) {
    if (!Object.hasOwn(value, field) || isValid(value[field]!)) continue;
    problems.push(
      at(field, `"${field}" should be ${expected}: hosts may refuse the skill or ignore the field`, "warning"),
    );
  }
  return problems;
}

const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const NAME_UNITS_MAX = 64;
const DESCRIPTION_CHARACTERS_MAX = 1_024;
const COMPATIBILITY_CHARACTERS_MAX = 500;

const isText = (value: Json): value is string => typeof value === "string" && value !== "";

const optional: Readonly<Record<string, { expected: string; isValid: (value: Json) => boolean }>> = {
  license: { expected: "the name of a license, or of the file with it", isValid: isText },
  compatibility: {
    expected: `a string of at most ${COMPATIBILITY_CHARACTERS_MAX} characters`,
    isValid: (value) => isText(value) && Array.from(value).length <= COMPATIBILITY_CHARACTERS_MAX,
  },
  metadata: {
    expected: "a map of names to strings (put quotes around numbers)",
    isValid: (value) => isObject(value) && Object.values(value).every((each) => typeof each === "string"),
  },
  "allowed-tools": { expected: "a string of tool names separated by spaces", isValid: isText },
};

function shorten(text: string): string {
  return cutText(text, QUOTED_UNITS_MAX);
}

const QUOTED_UNITS_MAX = 200;

function problemAt(file: string, text: string, offset: number, length: number, code: string, message: string): Problem {
  const { line, column, lineText } = positionAt(text, offset);
  return { ...fault(file, code, message), line, column, frame: codeFrame(lineText, line, column, Math.max(1, length)) };
}

function fault(file: string, code: string, message: string, severity: Problem["severity"] = "error"): Problem {
  return { code, message, severity, file };
}
