/**
 * The script of the state pages: saves a value against the version that the page shows, and deletes values. It uses
 * only the JSON API.
 */

import { send, type ApiRequest } from "../../browser/shared/api.ts";
import { ask } from "../../browser/shared/ask.ts";
import { element, showScripted } from "../../browser/shared/dom.ts";
import { openNotices } from "../../browser/shared/notices.ts";
import { refreshPage } from "../../browser/shared/refresh-page.ts";

const list = document.querySelector<HTMLElement>("#state, #keys");
const form = document.querySelector<HTMLFormElement>("#value");
const notices = openNotices();
document.querySelector("#notices")?.replaceWith(notices.element);
showScripted();

list?.addEventListener("click", ({ target }) => {
  if (!(target instanceof Element)) return;
  const { clear, delete: key, version } = target.closest<HTMLElement>("[data-clear], [data-delete]")?.dataset ?? {};
  if (clear !== undefined) void clearServer(clear);
  else if (key !== undefined) void removeListed(key, version!);
});

if (form) {
  const text = form.elements.namedItem("text") as HTMLTextAreaElement;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void save(form, text.value);
  });
  form.querySelector("[data-delete-this]")?.addEventListener("click", () => void removeShown(form));
}

async function clearServer(server: string): Promise<void> {
  const isMeant = await ask({
    title: `Delete all state of ${server}?`,
    content: [element("p", {}, "It cannot be restored.")],
    no: "Keep it",
    yes: "Delete it",
  });
  if (!isMeant || !(await request(`${list!.dataset["api"]}/${encodeURIComponent(server)}`, { method: "DELETE" })))
    return;
  await done(`All state of ${server} was deleted.`);
}

async function removeListed(key: string, version: string): Promise<void> {
  const { api, server } = list!.dataset;
  if (!(await isMeantToGo(key)) || !(await remove(`${api}/${encodeURIComponent(server!)}`, key, version))) return;
  await done(`${key} was deleted.`);
}

async function removeShown({ dataset: { api, server, key, version, back } }: HTMLFormElement): Promise<void> {
  if (!(await isMeantToGo(key!)) || !(await remove(`${api}/${encodeURIComponent(server!)}`, key!, version!))) return;
  location.assign(back!);
}

function isMeantToGo(key: string): Promise<boolean> {
  return ask({
    title: "Delete this key?",
    content: [element("p", {}, element("code", {}, key)), element("p", {}, "It cannot be restored.")],
    no: "Keep it",
    yes: "Delete it",
  });
}

function remove(server: string, key: string, version: string): Promise<unknown> {
  return request(addressOf(server, { key }), { method: "DELETE", headers: { "If-Match": `"${version}"` } });
}

async function save({ dataset }: HTMLFormElement, text: string): Promise<void> {
  const { api, server, key, version, type, expires } = dataset;
  const precondition: Record<string, string> =
    version === "0" ? { "If-None-Match": "*" } : { "If-Match": `"${version}"` };
  const address = addressOf(`${api}/${encodeURIComponent(server!)}`, {
    key: key!,
    // Treat an empty string as unset.
    ...(expires && { expiresAt: expires }),
  });
  const saved = await request(address, {
    method: "PUT",
    headers: { ...precondition, "Content-Type": type! },
    body: text,
  });
  if (!saved) return;
  dataset["version"] = String((saved as { version: number }).version);
  notices.show("done", "good", element("p", {}, "Saved."));
}

async function done(said: string): Promise<void> {
  notices.show("done", "good", element("p", {}, said));
  await refreshPage();
  showScripted();
}

function addressOf(server: string, query: Record<string, string>): string {
  return `${server}/value?${new URLSearchParams(query).toString()}`;
}

/** The response if the request succeeded; shows the reason otherwise. */
function request(address: string, options: ApiRequest): Promise<unknown> {
  notices.clear("done");
  return send(address, options, (message) => notices.show("done", "bad", element("p", {}, message)));
}
