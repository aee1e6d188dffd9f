import { copyable } from "../shared/copy.ts";

/** Shows a tool as JSON in the page when it is first opened; without scripts a link leads to it. */
export function showToolsAsJson(): void {
  // A toggle does not bubble.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      const link = target instanceof HTMLDetailsElement && target.open && target.querySelector<HTMLAnchorElement>(LINK);
      if (link) void show(link);
    },
    true,
  );
}

const LINK = ":scope > p > a[data-json]";

async function show(link: HTMLAnchorElement): Promise<void> {
  try {
    const response = await fetch(link.href, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(`it is answered with ${response.status}`);
    const text = await response.text();
    link.parentElement?.replaceWith(snippetOf(text, link.dataset["json"] ?? ""));
  } catch (error) {
    // The link stays, and leads to the reason.
    link.title = error instanceof Error ? error.message : String(error);
  }
}

function snippetOf(text: string, label: string): HTMLElement {
  const [snippet, source, code] = [
    document.createElement("div"),
    document.createElement("pre"),
    document.createElement("code"),
  ];
  snippet.className = "snippet";
  source.dataset["copy"] = label;
  code.textContent = text;
  source.append(code);
  snippet.append(source);
  copyable(source);
  return snippet;
}
