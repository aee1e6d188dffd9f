import type { Problem } from "../../lib/problem.ts";

/** An element with its properties and children; a text is never markup. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<Omit<HTMLElementTagNameMap[Tag], "style" | "dataset">>,
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children.filter((child) => child !== ""));
  return made;
}

export function button(label: string, act: () => void, className = ""): HTMLButtonElement {
  const made = element("button", { type: "button", className }, label);
  made.addEventListener("click", act);
  return made;
}

/** The path prefix of the tenant of this page. */
export const tenantBase = document.documentElement.dataset["base"] ?? "";

export function badge(text: string, tone: string): HTMLElement {
  return element("span", { className: `badge ${tone}` }, text);
}

/** Shows controls that only work with scripts. */
export function showScripted(): void {
  const controls = "[data-scripted], [data-restore], [data-grant]";
  for (const each of document.querySelectorAll<HTMLElement>(controls)) each.hidden = false;
}

/** Problems as a list; `content` is what each says after its badge. */
export function problemList(
  problems: readonly Problem[],
  content: (problem: Problem) => readonly (Node | string)[] = ({ message }) => [message],
): HTMLElement | string {
  if (problems.length === 0) return "";
  const items = problems.map((problem) => {
    const tone = problem.severity === "error" ? "bad" : "warn";
    return element("li", {}, badge(problem.severity, tone), " ", ...content(problem));
  });
  return element("ul", { className: "problems" }, ...items);
}
