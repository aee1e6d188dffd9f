import { formatLocation, SECRET_NOT_SET, type Problem } from "../../../lib/problem.ts";

/** A problem as `views/partials/problem.hbs` shows it. `base` is the path prefix of the tenant. */
export function problemView(base: string, problem: Problem) {
  const { severity, message, tool = "", frame = "" } = problem;
  const isError = severity === "error";
  const location = formatLocation(problem);
  return {
    tone: isError ? "bad" : "warn",
    label: isError ? "Error" : "Warning",
    message,
    located: location !== "" || tool !== "",
    tool,
    // Only an error leaves the tool out.
    relation: isError ? "leaves out" : "about",
    location,
    frame,
    // The page where it is fixed, if that is a page of its own.
    mendAt: problem.code === SECRET_NOT_SET ? `${base}/secrets` : "",
  };
}
