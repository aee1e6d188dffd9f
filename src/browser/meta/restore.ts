/** What the API says when it refuses. */
interface Refusal {
  readonly error?: { readonly code?: string; readonly message?: string; readonly data?: unknown };
}

/**
 * `<button data-restore="URL">` makes an earlier release what the server is now. What would break callers is done
 * only when the person has read that it would and says so.
 */
export function restoreReleases(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-restore]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      void restore(button, false);
    });
  }
}

async function restore(button: HTMLButtonElement, allowBreaking: boolean): Promise<void> {
  button.disabled = true;
  try {
    const response = await fetch(`${button.dataset["restore"]}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ allowBreaking }),
    });
    if (response.ok) return location.reload();
    const { error } = (await response.json().catch(() => ({}))) as Refusal;
    const message = error?.message ?? `The server answered ${response.status}`;
    if (error?.code === "edit_breaking" && !allowBreaking) ask(button, message);
    else show(button, message, "bad");
  } catch {
    show(button, "The server could not be reached", "bad");
  } finally {
    button.disabled = false;
  }
}

function ask(button: HTMLButtonElement, message: string): void {
  const confirm = document.createElement("button");
  confirm.type = "button";
  confirm.textContent = "Restore all the same";
  confirm.addEventListener("click", () => {
    void restore(button, true);
  });
  show(button, message, "warn").append(confirm);
  confirm.focus();
}

/** One notice below the table, in place of the one before it. */
function show(button: HTMLButtonElement, message: string, tone: "bad" | "warn"): HTMLElement {
  const table = button.closest("table")!;
  const notice = document.createElement("div");
  notice.className = `notice ${tone}`;
  notice.setAttribute("role", "alert");
  const text = document.createElement("p");
  text.textContent = message;
  notice.append(text);
  if (table.nextElementSibling?.getAttribute("role") === "alert") table.nextElementSibling.remove();
  table.after(notice);
  return notice;
}
