/**
 * Something wrong with what a person wrote, said so that it can be mended: where it stands and what to do.
 * Problems are values, collected and shown together; they are never thrown one by one.
 */
export interface Problem {
  /** Stable, kebab-case, for programs: `unsupported-type`, `missing-file`. */
  readonly code: string;
  /** A full sentence for a person: what is wrong and, where it helps, what to write instead. */
  readonly message: string;
  /** A warning leaves the thing usable; an error leaves it out. */
  readonly severity: "error" | "warning";
  /** The tool that is left out because of it. */
  readonly tool?: string;
  /** Relative to the folder of sources, with forward slashes. */
  readonly file?: string;
  /** From 1. */
  readonly line?: number;
  /** From 1, in UTF-16 units. */
  readonly column?: number;
  /** JSON pointer (RFC 6901) into the configuration that is at fault. */
  readonly pointer?: string;
  /** The line with a marker below the fault, ready to print in a fixed-width font. */
  readonly frame?: string;
}

/** A person mends the first ones and tries again; whoever has thousands of them is answered as quickly. */
export const PROBLEMS_MAX = 100;

/** Stands for the problems that are beyond the first. */
export function furtherProblems(count: number, severity: Problem["severity"]): Problem {
  const message = `There are ${count} more problems; a check tells of the first ${PROBLEMS_MAX}`;
  return { code: "more-problems", message, severity };
}

/** The first of them, and how many more there are. */
export function firstProblems(problems: readonly Problem[]): readonly Problem[] {
  if (problems.length <= PROBLEMS_MAX) return problems;
  const rest = problems.slice(PROBLEMS_MAX);
  const severity = rest.some((each) => each.severity === "error") ? "error" : "warning";
  const message = `There are ${rest.length} more problems; these are the first ${PROBLEMS_MAX}.`;
  return [...problems.slice(0, PROBLEMS_MAX), { code: "more-problems", message, severity }];
}

/** `file:line:column`, as far as it is known. */
export function locationOf(problem: Problem): string {
  const position = [problem.file, problem.line, problem.column].filter((part) => part !== undefined).join(":");
  return [position, problem.pointer].filter(Boolean).join(" ");
}
