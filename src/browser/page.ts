/**
 * The script of every page: copies texts, filters and searches lists, shows times in the reader's time zone. Each file directly in
 * this folder is a script of its own under /assets; folders beside it hold its imports. Pages read well without any of
 * it.
 */

import { copyOnClick } from "./shared/copy.ts";
import { filterLists } from "./shared/filter-lists.ts";
import { refreshPage } from "./shared/refresh-page.ts";
import { keepTimes } from "./shared/times.ts";

copyOnClick();
filterLists(document);
searchLive();
closeNames();
keepTimes();

const SEARCH_AFTER_MS = 200;

/** `<form data-live>` shows the page that it asks for while a person types, in place of leading to it. */
function searchLive(): void {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-live]")) {
    let searching = new AbortController();
    let timer = 0;
    const search = async (): Promise<void> => {
      const { signal } = (searching = new AbortController());
      const address = addressOf(form);
      await refreshPage(address, signal).catch(() => undefined);
      if (!signal.aborted) history.replaceState(null, "", address);
    };
    const searchSoon = (ms: number): void => {
      searching.abort();
      clearTimeout(timer);
      timer = window.setTimeout(() => void search(), ms);
    };
    form.addEventListener("input", () => searchSoon(SEARCH_AFTER_MS));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      searchSoon(0);
    });
  }
}

/** The address that a form leads to, without its empty fields. */
function addressOf(form: HTMLFormElement): string {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (typeof value === "string" && value !== "") query.set(name, value);
  return query.size === 0 ? form.action : `${form.action}?${query.toString()}`;
}

/** Escape, and a press elsewhere, close the names that stand over a list. */
function closeNames(): void {
  const open = (): HTMLDetailsElement | null => document.querySelector<HTMLDetailsElement>(".names[open]");
  document.addEventListener("keydown", ({ key }) => {
    const shown = open();
    if (key !== "Escape" || !shown) return;
    shown.open = false;
    shown.querySelector("summary")?.focus();
  });
  document.addEventListener("click", ({ target }) => {
    for (const shown of document.querySelectorAll<HTMLDetailsElement>(".names[open]")) {
      if (!(target instanceof Node && shown.contains(target))) shown.open = false;
    }
  });
}
