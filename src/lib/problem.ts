/**
 * A problem with what a person wrote, worded so that it can be fixed: where it is and what to do. Problems are values,
 * collected and shown together, never thrown one by one.
 */
export interface Problem {
  /** Stable, kebab-case, for programs: `unsupported-type`, `missing-file`. */
  readonly code: string;
  /** A full sentence for a person: what is wrong and, if it helps, what to write instead. */
  readonly message: string;
  /** A tool or server with a warning can be used; one with an error is left out. */
  readonly severity: "error" | "warning";
  /** The affected tool; an error excludes it. */
  readonly tool?: string;
  /** Relative to the folder of sources, with forward slashes. */
  readonly file?: string;
  /** From 1. */
  readonly line?: number;
  /** From 1, in UTF-16 code units. */
  readonly column?: number;
  /** JSON pointer (RFC 6901) to the configuration at fault. */
  readonly pointer?: string;
  /** The affected environment variable. */
  readonly variable?: string;
  /** The line with a marker below the fault, or the tail of a program's output, for a fixed-width font. */
  readonly frame?: string;
}

/** A type error in a definition, whose code runs nevertheless. */
export const TYPE_ERROR = "type-error";

/** A secret that is granted to a server has no value. */
export const SECRET_NOT_SET = "secret-not-set";

/** Code reads an environment variable that its entry does not set. */
export const UNSET_VARIABLE = "unset-variable";

/** Without the warnings about variables that an entry sets. */
export function withoutSetVariables(problems: readonly Problem[], env: object): Problem[] {
  return problems.filter(({ variable }) => variable === undefined || !Object.hasOwn(env, variable));
}

/** Problems under `--strict`: type errors are treated like other errors. */
export function withTypeErrors(problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => (problem.code === TYPE_ERROR ? { ...problem, severity: "error" } : problem));
}

/** A person fixes the first ones and tries again; thousands of problems take no longer to return. */
export const PROBLEMS_MAX = 100;

const MORE_PROBLEMS = "more-problems";

/** Represents the problems beyond the first ones. */
export function furtherProblems(count: number, severity: Problem["severity"]): Problem {
  const message = `There are ${count} more problems; a check reports the first ${PROBLEMS_MAX}`;
  return { code: MORE_PROBLEMS, message, severity };
}

/** True if there are more problems than these. */
export function hasMore(problems: readonly Problem[]): boolean {
  return problems.at(-1)?.code === MORE_PROBLEMS;
}

/** The first problems, errors before warnings if there are more, and the number of the others. */
export function firstProblems(problems: readonly Problem[], max = PROBLEMS_MAX): readonly Problem[] {
  if (problems.length <= max || (problems.length === max + 1 && hasMore(problems))) return problems;
  const errors = problems.filter(({ severity }) => severity === "error");
  const first = new Set(
    [...errors.slice(0, max), ...problems.filter(({ severity }) => severity !== "error")].slice(0, max),
  );
  const severity = errors.length > max ? "error" : "warning";
  const message = `There are ${problems.length - max} more problems; these are the first ${max}.`;
  return [...problems.filter((each) => first.has(each)), { code: MORE_PROBLEMS, message, severity }];
}

/** The first problems, for a list of many servers that may each have as many. */
export function listedProblems(problems: readonly Problem[]): readonly Problem[] {
  return firstProblems(problems, LISTED_MAX);
}

const LISTED_MAX = 10;

/** Like `firstProblems`, for problems of a definition, whose names and lines have no maximum length. */
export function shortProblems(problems: readonly Problem[]): readonly Problem[] {
  return firstProblems(problems).map(short);
}

const TEXT_UNITS_MAX = 2_000;

function short(problem: Problem): Problem {
  const texts = Object.entries(problem).filter(([, text]) => typeof text === "string" && text.length > TEXT_UNITS_MAX);
  if (texts.length === 0) return problem;
  const cut = texts.map(([name, text]) => [name, `${(text as string).slice(0, TEXT_UNITS_MAX)}…`]);
  return { ...problem, ...Object.fromEntries(cut) } as Problem;
}

/** `file:line:column`, as far as known. */
export function formatLocation(problem: Problem): string {
  const position = [problem.file, problem.line, problem.column].filter((part) => part !== undefined).join(":");
  return [position, problem.pointer].filter(Boolean).join(" ");
}

export function distinctProblems(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()];
}
