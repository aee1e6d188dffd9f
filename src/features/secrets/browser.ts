/**
 * The script of the secrets page: sets, replaces and deletes secrets. It never has a value except the one being typed.
 */

import { send, type ApiRequest } from "../../browser/shared/api.ts";
import { ask } from "../../browser/shared/ask.ts";
import { element, showScripted } from "../../browser/shared/dom.ts";
import { openNotices } from "../../browser/shared/notices.ts";
import { refreshPage } from "../../browser/shared/refresh-page.ts";

const form = document.querySelector<HTMLFormElement>("#set-secret");
const notices = openNotices();

if (form) {
  showScripted();
  document.querySelector("#notices")?.replaceWith(notices.element);
  const name = form.elements.namedItem("name") as HTMLInputElement;
  const value = form.elements.namedItem("value") as HTMLTextAreaElement;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void set(name, value);
  });
  // The table is replaced after each change.
  document.querySelector("#secrets")?.addEventListener("click", ({ target }) => {
    if (!(target instanceof Element)) return;
    const chosen = target.closest<HTMLElement>("[data-set], [data-delete]");
    if (chosen?.dataset["set"] !== undefined) {
      name.value = chosen.dataset["set"];
      value.focus();
    } else if (chosen?.dataset["delete"] !== undefined) void remove(chosen.dataset["delete"]);
  });
}

async function set(name: HTMLInputElement, value: HTMLTextAreaElement): Promise<void> {
  const headers = { "Content-Type": "text/plain; charset=utf-8" };
  if (!(await save(name.value, { method: "PUT", headers, body: value.value }))) return;
  notices.show("done", "good", element("p", {}, `The secret ${name.value} is set.`));
  name.value = value.value = "";
  await refreshPage();
  showScripted();
}

async function remove(name: string): Promise<void> {
  const isMeant = await ask({
    title: `Delete ${name}?`,
    content: [element("p", {}, "Servers lose it from their next call on. It cannot be restored.")],
    no: "Keep it",
    yes: "Delete it",
  });
  if (!isMeant || !(await save(name, { method: "DELETE" }))) return;
  notices.show("done", "good", element("p", {}, `The secret ${name} is deleted.`));
  await refreshPage();
  showScripted();
}

/** True when it was done; shows the reason otherwise. */
async function save(name: string, request: ApiRequest): Promise<boolean> {
  notices.clear("done");
  const url = `${form!.dataset["api"]}/${encodeURIComponent(name)}`;
  const fail = (message: string) => notices.show("done", "bad", element("p", {}, message));
  return (await send(url, request, fail)) !== undefined;
}
