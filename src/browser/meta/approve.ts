import { askToken, asksForToken, withTyped } from "../shared/ask-token.ts";

/**
 * `<button data-approve="URL" data-contract="CID">` approves an upstream's new contract: the one that the page shows.
 */
export function approveChanges(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-approve]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      void approve(button);
    });
  }
}

async function approve(button: HTMLButtonElement): Promise<void> {
  button.disabled = true;
  try {
    const response = await fetch(button.dataset["approve"]!, {
      method: "POST",
      headers: withTyped({ "Content-Type": "application/json" }),
      body: JSON.stringify({ contract: button.dataset["contract"] }),
    });
    if (response.ok) return location.reload();
    if (response.status === 412) return show(button, "It has changed once more: load this page again to see how.");
    const { error } = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
    const message = error?.message ?? `The server answered ${response.status}`;
    if (asksForToken(error?.code)) return (await askToken(message)) ? approve(button) : undefined;
    show(button, message);
  } catch {
    show(button, "The server could not be reached");
  } finally {
    button.disabled = false;
  }
}

/** Shows one notice below the button, replacing the previous one. */
function show(button: HTMLButtonElement, message: string): void {
  const notice = document.createElement("div");
  notice.className = "notice bad";
  notice.setAttribute("role", "alert");
  const text = document.createElement("p");
  text.textContent = message;
  notice.append(text);
  const place = button.closest("p")!;
  if (place.nextElementSibling?.getAttribute("role") === "alert") place.nextElementSibling.remove();
  place.after(notice);
}
