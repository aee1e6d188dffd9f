import { showLocalTimes } from "./times.ts";

/** Updates each `[data-refresh]` of the page from the server, and leaves everything else as it is. */
export async function refreshPage(): Promise<void> {
  const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const now = fresh.getElementById(part.id);
    if (now) part.replaceChildren(...now.childNodes);
  }
  showLocalTimes();
}
