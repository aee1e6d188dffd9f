/**
 * The script of a server's page: opens the part named in the address, shows tools as JSON, restores releases and
 * approves changes.
 */

import type { ContractChange } from "../contract/change.ts";
import { askToken, asksForToken, withTyped } from "./shared/ask-token.ts";
import { copyable } from "./shared/copy.ts";
import { button, element } from "./shared/dom.ts";

openTarget();
restoreReleases();
showToolsAsJson();
approveChanges();

/** Opens the collapsed part that the address's fragment names, now and whenever the fragment changes. */
function openTarget(): void {
  const open = (): void => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
}

/** Shows a tool as JSON in the page when it is first opened; without scripts a link leads to it. */
function showToolsAsJson(): void {
  // A toggle does not bubble.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      const link =
        target instanceof HTMLDetailsElement &&
        target.open &&
        target.querySelector<HTMLAnchorElement>(":scope > p > a[data-json]");
      if (link) void showJson(link);
    },
    true,
  );
}

async function showJson(link: HTMLAnchorElement): Promise<void> {
  try {
    const response = await fetch(link.href, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(`Berth answered ${response.status}`);
    const source = element("pre", {}, element("code", {}, await response.text()));
    source.dataset["copy"] = link.dataset["json"] ?? "";
    const snippet = element("div", { className: "snippet" }, source);
    copyable(source);
    link.parentElement?.replaceWith(snippet);
  } catch (error) {
    // The link stays, and leads to the reason.
    link.title = error instanceof Error ? error.message : String(error);
  }
}

/**
 * `<button data-restore="URL">` makes an earlier release the current one. A change that would break callers needs the
 * person's consent after they have read the list.
 */
function restoreReleases(): void {
  for (const each of document.querySelectorAll<HTMLButtonElement>("button[data-restore]")) {
    each.hidden = false;
    each.addEventListener("click", () => void restore(each, ""));
  }
}

async function restore(pressed: HTMLButtonElement, query: "" | "?allow_breaking=true"): Promise<void> {
  const refusal = await post(pressed, `${pressed.dataset["restore"]}${query}`);
  if (!refusal) return;
  const table = pressed.closest("table")!;
  if (refusal.code !== "edit_breaking") {
    notify(table, refusal.message);
    return;
  }
  const changes = (refusal.data?.review?.servers ?? []).flatMap(({ changes = [] }) => changes);
  const breaking = changes.filter(({ effect }) => effect === "breaking").map(({ message }) => message);
  const notice = notify(table, "Nothing has changed yet: restoring this release would break callers.", breaking);
  const confirm = button("Restore anyway", () => void restore(pressed, "?allow_breaking=true"));
  notice.append(confirm);
  confirm.focus();
}

/**
 * `<button data-approve="URL" data-contract="CID">` approves an upstream's new contract: the one that the page shows.
 */
function approveChanges(): void {
  for (const each of document.querySelectorAll<HTMLButtonElement>("button[data-approve]")) {
    each.hidden = false;
    each.addEventListener("click", () => void approve(each));
  }
}

async function approve(pressed: HTMLButtonElement): Promise<void> {
  const { approve: url, contract } = pressed.dataset;
  const refusal = await post(pressed, url!, { contract });
  if (!refusal) return;
  const hasMoved = refusal.status === 412;
  const message = hasMoved ? "It has changed again: reload this page to see how." : refusal.message;
  notify(pressed.closest("p")!, message);
}

/** The API's answer when it refuses (docs/api.md). */
interface Refusal {
  /** Undefined when the server could not be reached. */
  readonly status?: number;
  readonly code?: string;
  readonly message: string;
  readonly data?: {
    readonly review?: { readonly servers?: readonly { readonly changes?: readonly ContractChange[] }[] };
  };
}

/**
 * Sends what a button does; asks for a token where that helps, and loads the page again when it is done. Undefined
 * when it was done, or the person gave no token.
 */
async function post(pressed: HTMLButtonElement, url: string, body?: object): Promise<Refusal | undefined> {
  pressed.disabled = true;
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: withTyped({ Accept: "application/json", ...(body && { "Content-Type": "application/json" }) }),
      ...(body && { body: JSON.stringify(body) }),
    });
    const { status } = response;
    if (response.ok) {
      location.reload();
      return undefined;
    }
    const { error } = (await response.json().catch(() => ({}))) as { error?: Partial<Refusal> };
    const message = error?.message ?? `The server answered ${status}`;
    if (asksForToken(error?.code)) return (await askToken(message)) ? await post(pressed, url, body) : undefined;
    return { ...error, status, message };
  } catch {
    return { message: "The server could not be reached" };
  } finally {
    pressed.disabled = false;
  }
}

/** Shows one notice below a part of the page, replacing the previous one. */
function notify(place: Element, message: string, points: readonly string[] = []): HTMLElement {
  const list = element("ul", { className: "plain" }, ...points.map((point) => element("li", {}, point)));
  const notice = element("div", { className: "notice bad" }, element("p", {}, message), points.length > 0 ? list : "");
  notice.setAttribute("role", "alert");
  if (place.nextElementSibling?.getAttribute("role") === "alert") place.nextElementSibling.remove();
  place.after(notice);
  return notice;
}
