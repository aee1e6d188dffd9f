/**
 * The script of the packages page: has a change of the set reviewed, shows what it does, and saves it once the person has
 * seen that. It talks only to the JSON API.
 */

import type { PackageChange, Review, Saved } from "../contract/review.ts";
import type { Draft } from "../lib/draft.ts";
import { showEffects } from "./editor/effects.ts";
import { send } from "./shared/api.ts";
import { ask } from "./shared/ask.ts";
import { badge, button, element, problemList, showScripted } from "./shared/dom.ts";
import { openNotices } from "./shared/notices.ts";
import { refreshPage } from "./shared/refresh-page.ts";

/** A change that was reviewed, and how to make it. */
interface Proposal {
  readonly title: string;
  readonly review: Review;
  readonly save: (headers: Record<string, string>) => Promise<Saved | undefined>;
}

/** The body of a request to change the set. */
interface Wishes {
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
  readonly update?: true | readonly string[];
}

const form = document.querySelector<HTMLFormElement>("#add-package");
const notices = openNotices();
let isBusy = false;

if (form) {
  const api = form.dataset["api"]!;
  const variable = form.dataset["variable"]!;
  showScripted();
  document.querySelector("#notices")?.replaceWith(notices.element);
  const wish = form.elements.namedItem("wish") as HTMLInputElement;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const add = wish.value.split(/\s+/).filter(Boolean);
    void propose(api, `Add ${add.join(", ")}`, { add }).then((isDone) => isDone && (wish.value = ""));
  });
  form.querySelector("[data-update-all]")?.addEventListener("click", () => {
    void propose(api, "Update all packages", { update: true });
  });
  // The table is replaced after each change.
  document.addEventListener("click", ({ target }) => {
    if (!(target instanceof Element)) return;
    const { update, remove, restore } =
      target.closest<HTMLElement>("[data-update], [data-remove], [data-restore]")?.dataset ?? {};
    if (update !== undefined) void propose(api, `Update ${update}`, { update: [update] });
    else if (remove !== undefined) void propose(api, `Remove ${remove}`, { remove: [remove] });
    else if (restore !== undefined) void proposeVersion(variable, restore);
  });
}

/** True once there is something to look at. */
function propose(api: string, title: string, wishes: Wishes): Promise<boolean> {
  return once("Asking the registry…", async () => {
    const found = await request<{ set: string; review: Review }>("POST", `${api}/review`, wishes);
    if (!found) return false;
    const { set, review } = found;
    showProposal({ title, review, save: (headers) => request<Saved>("POST", api, { ...wishes, set }, headers) });
    return true;
  });
}

async function proposeVersion(variable: string, cid: string): Promise<void> {
  await once("Looking at that version…", async () => {
    const draft = await request<Draft>("GET", `${variable}/versions/${cid}`);
    const review =
      draft && (await request<Review>("POST", `${variable}/review`, { entry: draft.entry, files: draft.files }));
    if (!draft || !review) return false;
    const { entry, files } = draft;
    const save = (headers: Record<string, string>) => request<Saved>("PUT", variable, { entry, files }, headers);
    showProposal({ title: "Go back to that version", review, save });
    return true;
  });
}

/** One change at a time. */
async function once(doing: string, work: () => Promise<boolean>): Promise<boolean> {
  if (isBusy) return false;
  isBusy = true;
  notices.clear("done");
  notices.show("doing", "warn", element("p", { role: "status" }, doing));
  try {
    return await work();
  } finally {
    isBusy = false;
    notices.clear("doing");
  }
}

function showProposal({ title, review, save }: Proposal): void {
  const section = document.querySelector<HTMLElement>("#review")!;
  const heading = document.querySelector<HTMLElement>("#review-title")!;
  const close = (): void => {
    section.hidden = true;
  };
  const isRefused = review.problems.some(({ severity }) => severity === "error");
  const nothing = (review.packages ?? []).length === 0 && review.servers.length === 0;
  const saveIt = button(
    review.breaking ? "Save it anyway…" : "Save it",
    () => void settle(review, save, close),
    "primary",
  );
  saveIt.disabled = isRefused;
  heading.textContent = `${title}: what this would change`;
  document
    .querySelector("#review-body")!
    .replaceChildren(
      nothing && !isRefused ? element("p", { className: "muted" }, "Nothing: the set stays as it is.") : "",
      showPackages(review.packages ?? []),
      problemList(review.problems),
      review.servers.length > 0
        ? showEffects(review)
        : element("p", { className: "muted" }, "No server uses any of these packages."),
      isRefused ? element("p", { className: "notice bad" }, "It cannot be saved: fix the errors first.") : "",
      element("div", { className: "choices" }, button("Change nothing", close), saveIt),
    );
  section.hidden = false;
  heading.focus();
}

async function settle(review: Review, save: Proposal["save"], close: () => void): Promise<void> {
  const isMeant =
    !review.breaking ||
    (await ask({
      title: "This breaks callers",
      content: [
        element("p", {}, "Clients that work today may fail once this is done."),
        element(
          "p",
          { className: "muted" },
          "Earlier releases stay reachable by their CID, with the packages of then.",
        ),
      ],
      no: "Change nothing",
      yes: "Save it anyway",
    }));
  if (!isMeant) return;
  await once("Saving…", async () => {
    const standing = document.querySelector<HTMLElement>("#set")?.dataset["cid"] ?? "";
    const saved = await save({
      ...(standing === "" ? { "If-None-Match": "*" } : { "If-Match": `"${standing}"` }),
      ...(review.breaking && { "Berth-Allow-Breaking": "true" }),
    });
    if (!saved) return false;
    close();
    notices.show("done", "good", element("p", {}, element("strong", {}, "Saved."), " It is in effect now."));
    await refreshPage();
    showScripted();
    return true;
  });
}

function showPackages(changes: readonly PackageChange[]): HTMLElement | string {
  if (changes.length === 0) return "";
  const rows = changes.map(({ name, before, after, direct }) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("code", {}, name),
        direct ? "" : element("span", { className: "muted small" }, " needed by others"),
      ),
      element("td", {}, before.length === 0 ? badge("new", "good") : before.join(", ")),
      element("td", {}, after.length === 0 ? badge("goes away", "bad") : after.join(", ")),
    ),
  );
  const heads = ["Package", "Now", "Then"].map((text) => element("th", { scope: "col" }, text));
  return element(
    "table",
    { className: "stack" },
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows),
  );
}

/** The answer; undefined, with the reason on the page, where there is none. */
function request<T>(method: string, url: string, body?: object, headers: Record<string, string> = {}) {
  const fail = (message: string) => notices.show("done", "bad", element("p", {}, message));
  return send<T>(url, { method, headers, body }, fail) as Promise<T | undefined>;
}
