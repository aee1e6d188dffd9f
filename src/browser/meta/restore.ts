import type { ContractChange } from "../../contract/change.ts";
import { askToken, asksForToken, withTyped } from "../shared/ask-token.ts";

/** The API's answer when it refuses (docs/api.md). */
interface Refusal {
  readonly error?: {
    readonly code?: string;
    readonly message?: string;
    readonly data?: {
      readonly review?: { readonly servers?: readonly { readonly changes?: readonly ContractChange[] }[] };
    };
  };
}

/**
 * `<button data-restore="URL">` makes an earlier release the current one. A change that would break callers needs the
 * person's consent after they have read the list.
 */
export function restoreReleases(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-restore]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      void restore(button, "");
    });
  }
}

async function restore(button: HTMLButtonElement, query: "" | "?allow_breaking=true"): Promise<void> {
  button.disabled = true;
  try {
    const response = await fetch(`${button.dataset["restore"]}${query}`, {
      method: "POST",
      headers: withTyped({ Accept: "application/json" }),
    });
    if (response.ok) return location.reload();
    const { error } = (await response.json().catch(() => ({}))) as Refusal;
    const message = error?.message ?? `The server answered ${response.status}`;
    if (asksForToken(error?.code)) return (await askToken(message)) ? restore(button, query) : undefined;
    if (error?.code !== "edit_breaking") show(button, message, []);
    else
      ask(
        button,
        (error.data?.review?.servers ?? []).flatMap(({ changes = [] }) => changes),
      );
  } catch {
    show(button, "The server could not be reached", []);
  } finally {
    button.disabled = false;
  }
}

function ask(button: HTMLButtonElement, changes: readonly ContractChange[]): void {
  const breaking = changes.filter(({ effect }) => effect === "breaking").map(({ message }) => message);
  const notice = show(button, "Nothing was changed yet: restoring this release would break callers.", breaking);
  const confirm = document.createElement("button");
  confirm.type = "button";
  confirm.textContent = "Restore all the same";
  confirm.addEventListener("click", () => {
    void restore(button, "?allow_breaking=true");
  });
  notice.append(confirm);
  confirm.focus();
}

/** Shows one notice below the table, replacing the previous one. */
function show(button: HTMLButtonElement, message: string, points: readonly string[]): HTMLElement {
  const table = button.closest("table")!;
  const notice = document.createElement("div");
  notice.className = "notice bad";
  notice.setAttribute("role", "alert");
  notice.append(textIn("p", message));
  if (points.length > 0) {
    const list = document.createElement("ul");
    list.className = "plain";
    list.append(...points.map((point) => textIn("li", point)));
    notice.append(list);
  }
  if (table.nextElementSibling?.getAttribute("role") === "alert") table.nextElementSibling.remove();
  table.after(notice);
  return notice;
}

function textIn(tag: "p" | "li", text: string): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
