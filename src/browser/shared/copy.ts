const SHOWN_MS = 1600;

/**
 * Gives each `[data-copy]` element a button that copies its text. The buttons are made here because they would do
 * nothing without scripts.
 */
export function copyOnClick(within: ParentNode = document): void {
  for (const source of within.querySelectorAll<HTMLElement>("[data-copy]")) {
    copyable(source);
  }
}

/** The same for an element that was made later, once it is inside another one. */
export function copyable(source: HTMLElement): void {
  source.after(buttonFor(source));
}

function buttonFor(source: HTMLElement): HTMLButtonElement {
  const button = document.createElement("button");
  const label = source.dataset["copy"] ?? "";
  button.type = "button";
  button.className = "copy";
  const text = source.dataset["copyLabel"] ?? "Copy";
  button.textContent = text;
  if (label !== "") button.setAttribute("aria-label", `Copy ${label}`);
  button.addEventListener("click", () => {
    void copy(source, button, text);
  });
  return button;
}

async function copy(source: HTMLElement, button: HTMLButtonElement, label: string): Promise<void> {
  const copied = await toClipboard(source);
  button.textContent = copied ? "Copied" : "Press Ctrl+C";
  setTimeout(() => (button.textContent = label), SHOWN_MS);
}

/** If the clipboard is refused, as on plain http from another machine, selects the text for the reader. */
async function toClipboard(source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(source.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
