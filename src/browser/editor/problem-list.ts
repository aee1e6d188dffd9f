import { locationOf, type Problem } from "../../lib/problem.ts";
import { element } from "../shared/dom.ts";

/** Shows problems as a list whose entries lead to their places. */
export function showProblems(problems: readonly Problem[], reveal: (problem: Problem) => void): HTMLElement {
  return element("ul", { className: "problems" }, ...problems.map((problem) => showProblem(problem, reveal)));
}

function showProblem(problem: Problem, reveal: (problem: Problem) => void): HTMLElement {
  const tone = problem.severity === "error" ? "bad" : "warn";
  const place = element("button", { type: "button", className: "place" }, locationOf(problem) || "the beginning");
  place.addEventListener("click", () => reveal(problem));
  return element(
    "li",
    {},
    element("span", { className: `badge ${tone}` }, problem.severity),
    " ",
    problem.message,
    " ",
    place,
  );
}
