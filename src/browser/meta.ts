/**
 * The script of a server's page: switches tabs without a reload, opens the part named in the address, shows tools as
 * JSON, restores releases and approves changes.
 */

import type { ContractChange } from "../contract/change.ts";
import { askToken, asksForToken, withTyped } from "./shared/ask-token.ts";
import { copyable, copyOnClick } from "./shared/copy.ts";
import { button, element } from "./shared/dom.ts";
import { filterLists } from "./shared/filter-lists.ts";
import { showLocalTimes } from "./shared/times.ts";
import { openTester } from "./tester/open-tester.ts";

/** The tabs of parts that addresses name. */
const TAB_OF: Readonly<Record<string, string>> = {
  connect: "connect",
  upstream: "upstream",
  packages: "code",
  health: "releases",
  releases: "releases",
  calls: "calls",
  lines: "calls",
  tools: "tools",
  resources: "tools",
  prompts: "tools",
};

/** The tabs that were shown so far: each stays as it was left. */
const panels = new Map<string, Panel>();
let shown = panelIn(document, location.search)!;

interface Panel {
  readonly id: string;
  readonly element: HTMLElement;
  /** True if the address asked for a part of the tab. */
  readonly isPart: boolean;
  /** How far the page was scrolled when it was left. */
  scrolledTo?: number;
}

panels.set(shown.id, shown);
void begin(shown);
showToolsAsJson();
openTarget();
addEventListener("hashchange", openTarget);
addEventListener("popstate", () => void showAddress());
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.origin + link.pathname !== location.origin + location.pathname) return;
  const asked = new URLSearchParams(link.search);
  const tab = asked.get("tab");
  // A part of a tab, such as one call, is a page of its own; and so is the whole tab beside it.
  if (tab === null || asked.size > 1 || panels.get(tab)?.isPart) return;
  event.preventDefault();
  void turnTo(link.href);
});

function panelIn(root: ParentNode, search: string): Panel | undefined {
  const element = root.querySelector<HTMLElement>("[data-tab]");
  if (!element) return undefined;
  const id = element.dataset["tab"]!;
  // The tools are all there, whatever is filled in.
  return { id, element, isPart: id !== "tools" && new URLSearchParams(search).size > 1 };
}

/** Shows the tab of an address, which becomes that of the page. */
async function turnTo(address: string): Promise<void> {
  if (address !== location.href) history.pushState(null, "", address);
  await showAddress();
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Shows the tab that the page's address names; a tab that cannot be had is left to the browser. */
async function showAddress(): Promise<void> {
  const { href, searchParams } = new URL(location.href);
  const id = searchParams.get("tab") ?? document.querySelector<HTMLElement>("#server-tabs a")?.dataset["id"] ?? "";
  if (id === shown.id) return;
  const panel = panels.get(id) ?? (await load(href));
  // Another one may have been asked for meanwhile, or this one twice.
  if (location.href !== href) return;
  if (!panel) return location.reload();
  show(panels.get(id) ?? add(id, panel));
}

async function load(address: string): Promise<Panel | undefined> {
  const response = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => undefined);
  if (!response?.ok) return undefined;
  return panelIn(new DOMParser().parseFromString(await response.text(), "text/html"), new URL(address).search);
}

function add(id: string, panel: Panel): Panel {
  shown.element.after(panel.element);
  panels.set(id, panel);
  copyOnClick(panel.element);
  filterLists(panel.element);
  showLocalTimes();
  void begin(panel);
  return panel;
}

function show(panel: Panel): void {
  const tabs = document.querySelector<HTMLElement>("#server-tabs")!;
  shown.scrolledTo = scrollY;
  shown.element.hidden = true;
  panel.element.hidden = false;
  shown = panel;
  for (const link of tabs.querySelectorAll<HTMLElement>("a")) {
    if (link.dataset["id"] === panel.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo({ top: panel.scrolledTo ?? Math.min(scrollY, tabs.offsetTop), behavior: "instant" });
}

/** Starts what a tab does, once. */
async function begin({ element }: Panel): Promise<void> {
  openTester(element);
  openButtons(element, "data-restore-release", restore);
  openButtons(element, "data-approve", approve);
  if (!element.querySelector("[data-editor]")) return;
  const { openEditors } = await import("./editor/open-editors.ts");
  const { styleNonce } = document.querySelector<HTMLElement>("#server")!.dataset;
  openEditors(element, { styleNonce, onSaved: forgetOthers });
}

/** After a save the other tabs have something else to show, but for texts that are being edited. */
function forgetOthers(): void {
  for (const [id, panel] of panels) {
    if (panel === shown || panel.element.querySelector(".editor-body")) continue;
    panel.element.remove();
    panels.delete(id);
  }
}

/** Opens the part that the address's fragment names: another tab, or something collapsed in this one. */
function openTarget(): void {
  const name = fragment();
  const target = name === "" ? null : document.getElementById(name);
  const tab = TAB_OF[name] ?? (/^(?:tool-|tool=|resource=|prompt=)/.test(name) ? "tools" : undefined);
  if (tab !== undefined && tab !== shown.id && isOffered(tab)) {
    history.replaceState(null, "", `?tab=${tab}${location.hash}`);
    void showAddress().then(() => dispatchEvent(new HashChangeEvent("hashchange")));
  } else if (target) {
    if (target instanceof HTMLDetailsElement) target.open = true;
    target.scrollIntoView();
  }
}

/** Empty where there is none, or one that means nothing. */
function fragment(): string {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function isOffered(tab: string): boolean {
  return document.querySelector(`#server-tabs a[data-id="${tab}"]`) !== null;
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
 * `<button data-restore-release="URL">` makes an earlier release the current one, and
 * `<button data-approve="URL" data-contract="CID">` approves an upstream's new contract: the one that the page shows.
 */
function openButtons(root: ParentNode, name: string, act: (pressed: HTMLButtonElement) => Promise<void>): void {
  for (const each of root.querySelectorAll<HTMLButtonElement>(`button[${name}]`)) {
    each.hidden = false;
    each.addEventListener("click", () => void act(each));
  }
}

/** A change that would break callers needs the person's consent after they have read the list. */
async function restore(pressed: HTMLButtonElement, query: "" | "?allow_breaking=true" = ""): Promise<void> {
  const refusal = await post(pressed, `${pressed.dataset["restoreRelease"]}${query}`);
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
  if (pressed.ariaDisabled === "true") return undefined;
  pressed.ariaDisabled = "true";
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
    if (asksForToken(error?.code)) {
      pressed.ariaDisabled = null;
      return (await askToken(message)) ? await post(pressed, url, body) : undefined;
    }
    return { ...error, status, message };
  } catch {
    return { message: "The server could not be reached" };
  } finally {
    pressed.ariaDisabled = null;
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
