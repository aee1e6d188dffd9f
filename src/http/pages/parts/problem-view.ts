import { locationOf, type Problem } from "../../../problem.ts";

/** A problem as `views/partials/problem.hbs` shows it. */
export interface ProblemView {
  readonly tone: "bad" | "warn";
  readonly label: string;
  readonly message: string;
  readonly tool: string;
  readonly location: string;
  readonly frame: string;
}

export function problemView(problem: Problem): ProblemView {
  const { severity, message, tool = "", frame = "" } = problem;
  const isError = severity === "error";
  return {
    tone: isError ? "bad" : "warn",
    label: isError ? "Error" : "Warning",
    message,
    tool,
    location: locationOf(problem),
    frame,
  };
}
