import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { posix } from "node:path";
import { codeFrame } from "../lib/code-frame.ts";
import type { Problem } from "../lib/problem.ts";
import { scriptText } from "../lib/script-text.ts";
import { isInSystemFolder } from "./sandbox.ts";

/** The program that runs a script, and the arguments before the script's path. */
export interface Interpreter {
  readonly file: string;
  readonly args: readonly string[];
}

/** The folders in which scripts find programs by name. */
export const SCRIPT_PATH = "/usr/bin:/bin:/usr/local/bin";

export const SH: Interpreter = { file: "/bin/sh", args: [] };

/** Parses the first line of a script as the kernel and `env` do; a string is the reason why it cannot be run. */
export function readInterpreter(script: string): Interpreter | string {
  const line = firstLine(script);
  if (!line.startsWith("#!")) return SH;
  // The kernel reads no more than this.
  if (line.length > LINE_LENGTH_MAX)
    return `has more than ${LINE_LENGTH_MAX} characters; name the interpreter by a link`;
  const [, path = "", argument = ""] = /^#![ \t]*([^ \t]*)[ \t]*(.*?)[ \t]*$/.exec(line)!;
  if (/^\/(?:usr\/)?bin\/env$/.test(path)) return readEnv(argument);
  if (/^[^/]/.test(path))
    return `needs the whole path of its interpreter; write "#!/usr/bin/env ${posix.basename(path)}"`;
  if (/[ \t]/.test(argument) && !PERL.test(path)) {
    const rest = SHELL.test(path) ? `, or "set ${argument}" below it` : "";
    const fix = `write "#!/usr/bin/env -S ${posix.basename(path)} ${argument}"${rest}`;
    return `gives "${argument}" to ${path} as one argument, as Linux does; ${fix}`;
  }
  return interpreter(path, argument === "" ? [] : [argument]);
}

/** The problem of a script that no call can run. */
export function interpreterProblem(file: string, script: string): Problem | undefined {
  const parsed = readInterpreter(script);
  if (typeof parsed !== "string") return undefined;
  const line = firstLine(script);
  const place = { file, line: 1, column: 1, frame: codeFrame(line, 1, 1, line.length) };
  return { code: "bad-interpreter", message: `The first line ${parsed}`, severity: "error", ...place };
}

const LINE_LENGTH_MAX = 255;
/** Perl splits the argument itself. */
const PERL = /\/perl[\d.]*$/;
const SHELL = /\/(?:ba|da|k|mk|z)?sh$/;
/** Its compiler reserves more address space than the limit, which is the same for all interpreters. */
const NODE = /\/node(?:js)?$/;
/** Options that would take the script's path as their value, or not run it. */
const TAKES_VALUE = /^[-+][a-zA-Z]*[cosO]/;

function firstLine(script: string): string {
  const [line = ""] = script.split("\n", 1);
  return scriptText(line);
}

function readEnv(argument: string): Interpreter | string {
  const split = /^(?:-S|--split-string=)(.*)$/.exec(argument)?.[1];
  if (split === undefined && /[ \t]/.test(argument) && !argument.startsWith("-"))
    return `makes env look for one program named "${argument}"; write "#!/usr/bin/env -S ${argument}"`;
  const words = split === undefined ? [argument] : splitWords(split);
  const [name = "", ...args] = words ?? [];
  if (!words || name.startsWith("-") || name.includes("="))
    return "can only pass env an interpreter and its options, without variables, escapes and comments; put these into the script";
  return interpreter(name, args);
}

/** Splits as `env -S` does; undefined for its escapes, variables and comments. */
function splitWords(text: string): string[] | undefined {
  const words = text.match(/(?:[^\s'"\\$]|'[^'\\]*'|"[^"\\$]*")+|\S/g) ?? [];
  if (words.some((word) => /^(?:["'\\$]$|#)/.test(word))) return undefined;
  return words.map((word) => word.replace(/'([^']*)'|"([^"]*)"/g, "$1$2"));
}

function interpreter(name: string, args: readonly string[]): Interpreter | string {
  if (name === "") return `names no interpreter; ${installed()}`;
  const file = candidates(name).find(isProgram);
  const last = args.at(-1) ?? "";
  if (file === undefined) {
    const isOutside = name.includes("/") && !candidates(name).every(isInSystemFolder);
    const reason = isOutside ? "is not in a system folder such as /usr" : "is not installed where scripts run";
    return `asks for "${name}", which ${reason}; ${installed()}`;
  }
  if (NODE.test(file) && !args.includes("--jitless"))
    return `asks for ${name}, which needs more memory than scripts have; write a TypeScript definition instead`;
  if (SHELL.test(file) && TAKES_VALUE.test(last))
    return `ends with the option ${last}, which would take the script's path as its value; use "set" in the script`;
  return { file, args };
}

/** On some systems, programs of /bin are not in /usr/bin. */
function candidates(name: string): string[] {
  if (!name.includes("/")) return SCRIPT_PATH.split(":").map((folder) => `${folder}/${name}`);
  const other = /^(?:\/usr)?(\/bin\/.*)$/.exec(name)?.[1];
  return [name, ...(other === undefined ? [] : [name === other ? `/usr${other}` : other])];
}

/** True if the program also exists in the sandbox: a link in a system folder may lead out of those folders. */
function isProgram(file: string): boolean {
  try {
    if (posix.normalize(file) !== file || !isInSystemFolder(file)) return false;
    const target = realpathSync(file);
    accessSync(target, constants.X_OK);
    return isInSystemFolder(target) && statSync(target).isFile();
  } catch {
    return false;
  }
}

const COMMON_INTERPRETERS = ["sh", "bash", "dash", "zsh", "ksh", "python3", "perl", "ruby", "awk"];

function installed(): string {
  return `installed are ${COMMON_INTERPRETERS.filter((name) => candidates(name).some(isProgram)).join(", ")}`;
}
