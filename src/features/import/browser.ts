/**
 * The script of the box for a client's configuration: shows what Berth would add, then adds what is chosen. The text
 * goes to Berth only, and no answer contains its secrets.
 */

import { send } from "../../browser/shared/api.ts";
import { button, element, showScripted } from "../../browser/shared/dom.ts";
import { openNotices } from "../../browser/shared/notices.ts";
import type { JsonObject } from "../../lib/json.ts";

interface Preview {
  readonly servers: readonly { readonly name: string; readonly entry: JsonObject; readonly notes: readonly string[] }[];
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  readonly secrets: readonly string[];
  readonly unset: Readonly<Record<string, string>>;
}

interface Outcome {
  readonly saved: readonly { readonly name: string; readonly reason?: string }[];
}

const section = document.querySelector<HTMLElement>("#import");
const review = document.querySelector<HTMLElement>("#import-review");
const form = document.querySelector<HTMLFormElement>("#import-form");
const notices = openNotices();

if (section && review && form) {
  showScripted();
  document.querySelector("#import-notices")?.replaceWith(notices.element);
  const text = form.elements.namedItem("text") as HTMLTextAreaElement;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void show(text.value, section, review);
  });
  text.addEventListener("input", () => (review.hidden = true));
}

function fail(message: string): void {
  notices.clear("doing");
  notices.show("failed", "bad", element("p", {}, message));
}

async function show(text: string, from: HTMLElement, to: HTMLElement): Promise<void> {
  to.hidden = true;
  notices.clear("failed", "done");
  const preview = await send<Preview>(from.dataset["api"]!, { method: "POST", body: { text } }, fail);
  if (!preview || preview === true) return;
  const { servers, refused, secrets, unset } = preview;
  const boxes: HTMLInputElement[] = [];
  const items = servers.map(({ name, entry, notes }) => {
    const box = element("input", { type: "checkbox", checked: true, value: name });
    boxes.push(box);
    return element(
      "div",
      { className: "imported" },
      element("label", {}, box, " ", element("strong", {}, name)),
      element("pre", { tabIndex: 0 }, JSON.stringify(entry, null, 2)),
      ...notes.map((note) => element("p", { className: "muted small" }, note)),
    );
  });
  const refusals = refused.map(({ name, reason }) => {
    return element("li", {}, element("strong", {}, name), ` cannot be imported: ${reason}.`);
  });
  const missing = Object.entries(unset).map(([name, about]) => {
    return element("li", {}, "Set the secret ", element("code", {}, name), ` afterwards (${about}).`);
  });
  const stored = secrets.flatMap((name, index) => [index === 0 ? " " : ", ", element("code", {}, name)]);
  const chosen = (): string[] => boxes.filter(({ checked }) => checked).map(({ value }) => value);
  const add = button("Add the chosen servers", () => void save(text, chosen(), from, add), "primary");
  to.replaceChildren(
    element("h3", {}, servers.length === 0 ? "Nothing can be added" : "What would be added"),
    ...items,
    secrets.length > 0 ? element("p", {}, "Stored as secrets, and shown nowhere:", ...stored, ".") : "",
    refusals.length + missing.length > 0 ? element("ul", { className: "problems" }, ...refusals, ...missing) : "",
    servers.length > 0 ? element("p", { className: "choices" }, add) : "",
  );
  to.hidden = false;
  to.focus();
}

async function save(
  text: string,
  servers: readonly string[],
  from: HTMLElement,
  add: HTMLButtonElement,
): Promise<void> {
  if (add.ariaDisabled === "true") return;
  notices.clear("failed", "done");
  if (servers.length === 0) return fail("Choose a server first.");
  add.ariaDisabled = "true";
  const doing = "Adding them… Packages are installed first, which may take minutes.";
  notices.show("doing", "warn", element("p", { role: "status" }, doing));
  const outcome = await send<Outcome>(from.dataset["api"]!, { method: "PUT", body: { text, servers } }, fail);
  add.ariaDisabled = null;
  notices.clear("doing");
  if (!outcome || outcome === true) return;
  const items = outcome.saved.map(({ name, reason }) => {
    const page = element("a", { href: `${from.dataset["pages"]}${encodeURIComponent(name)}` }, name);
    return element("li", {}, page, reason === undefined ? " was added." : ` was not added: ${reason}`);
  });
  const isWhole = outcome.saved.every(({ reason }) => reason === undefined);
  notices.show("done", isWhole ? "good" : "bad", element("ul", {}, ...items));
}
