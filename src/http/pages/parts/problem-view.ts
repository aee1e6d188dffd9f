import { locationOf, SECRET_NOT_SET, type Problem } from "../../../lib/problem.ts";

/** A problem as `views/partials/problem.hbs` shows it. */
export interface ProblemView {
  readonly tone: "bad" | "warn";
  readonly label: string;
  readonly message: string;
  /** True when the problem names a tool or a place. */
  readonly located: boolean;
  readonly tool: string;
  /** The words before the tool: only an error leaves it out. */
  readonly relation: string;
  readonly location: string;
  readonly frame: string;
  /** The page where it is mended, if that is a page of its own. */
  readonly mendAt: string;
}

/** `base` is the path prefix of the tenant. */
export function problemView(base: string, problem: Problem): ProblemView {
  const { severity, message, tool = "", frame = "" } = problem;
  const isError = severity === "error";
  const location = locationOf(problem);
  return {
    tone: isError ? "bad" : "warn",
    label: isError ? "Error" : "Warning",
    message,
    located: location !== "" || tool !== "",
    tool,
    relation: isError ? "leaves out" : "about",
    location,
    frame,
    mendAt: problem.code === SECRET_NOT_SET ? `${base}/secrets` : "",
  };
}
