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
  for (const each of document.querySelectorAll<HTMLElement>("[data-scripted]")) each.hidden = false;
}
