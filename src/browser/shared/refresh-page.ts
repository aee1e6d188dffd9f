import { copyOnClick } from "./copy.ts";
import { showLocalTimes } from "./times.ts";

/**
 * Updates each `[data-refresh]` of the page from the server, and leaves everything else as it is. `address`: the page
 * as it should be now. Rejects when `signal` is aborted.
 */
export async function refreshPage(address = location.href, signal: AbortSignal | null = null): Promise<void> {
  const response = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store", signal });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const now = fresh.getElementById(part.id);
    if (!now) continue;
    part.replaceChildren(...now.childNodes);
    copyOnClick(part);
  }
  showLocalTimes();
}
