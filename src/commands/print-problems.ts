import { printable } from "../lib/printable.ts";
import { formatLocation, type Problem } from "../lib/problem.ts";

/** Problems in a form for people: place, severity and sentence on a line, then the source with a marker. */
export function printProblems(problems: readonly Problem[], write: (text: string) => void = toStderr): void {
  for (const problem of problems) write(`${formatProblem(problem)}\n`);
}

/** "2 errors, 1 warning"; empty when there are none. */
export function countProblems(problems: readonly Problem[]): string {
  const counts = (["error", "warning"] as const).map((severity) => {
    const count = problems.filter((problem) => problem.severity === severity).length;
    return count === 0 ? "" : counted(count, severity);
  });
  return counts.filter(Boolean).join(", ");
}

/** "1 tool", "2 tools". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function formatProblem(problem: Problem): string {
  const { severity, message, code, tool, frame } = problem;
  const place = formatLocation(problem);
  const about = tool === undefined ? "" : ` (tool ${printable(tool)})`;
  const line = `${place === "" ? "" : `${printable(place)}: `}${severity}${about}: ${printable(message)} [${code}]`;
  return frame === undefined ? line : `${line}\n${printable(frame).replace(/^/gm, "    ")}`;
}

function toStderr(text: string): void {
  console.error(text.replace(/\n$/, ""));
}
