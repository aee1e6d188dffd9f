import { locationOf, type Problem } from "../../../lib/problem.ts";

/** A problem as `views/partials/problem.hbs` shows it. */
export interface ProblemView {
  readonly tone: "bad" | "warn";
  readonly label: string;
  readonly message: string;
  /** True when the problem names a tool or a place. */
  readonly located: boolean;
  readonly tool: string;
  readonly location: string;
  readonly frame: string;
}

export function problemView(problem: Problem): ProblemView {
  const { severity, message, tool = "", frame = "" } = problem;
  const isError = severity === "error";
  const location = locationOf(problem);
  return {
    tone: isError ? "bad" : "warn",
    label: isError ? "Error" : "Warning",
    message,
    located: location !== "" || tool !== "",
    tool,
    location,
    frame,
  };
}
