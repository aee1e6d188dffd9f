/**
 * The script of the form that adds a server which others wrote: has Berth look at the server first, shows what it
 * offers, and saves its entry once the person has seen that. It talks only to the JSON API.
 */

import type { Review } from "../contract/review.ts";
import type { JsonObject } from "../lib/json.ts";
import { showEffects } from "./editor/effects.ts";
import { send } from "./shared/api.ts";
import { button, element, problemList } from "./shared/dom.ts";
import { openNotices } from "./shared/notices.ts";
import { upstreamUri, type UpstreamWish } from "./shared/upstream-uri.ts";

const form = document.querySelector<HTMLFormElement>("#add-upstream");
const notices = openNotices();
const section = document.querySelector<HTMLElement>("#review");
/** Ends a look that nobody waits for any more. */
let looking = new AbortController();

if (form && section) {
  form.hidden = false;
  document.querySelector("#notices")?.replaceWith(notices.element);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void look(form, section);
  });
  form.addEventListener("input", () => {
    looking.abort();
    section.hidden = true;
  });
}

async function look(from: HTMLFormElement, to: HTMLElement): Promise<void> {
  looking.abort();
  const { signal } = (looking = new AbortController());
  const wish = wishOf(from);
  const upstream = upstreamUri(wish);
  to.hidden = true;
  notices.clear("failed");
  if (typeof upstream !== "string") return notices.show("failed", "bad", element("p", {}, upstream.fault));
  notices.show(
    "doing",
    "warn",
    element("p", { role: "status" }, "Looking at it… A package is installed first, which may take a minute."),
  );
  const url = from.dataset["api"]! + encodeURIComponent(wish.name);
  const draft = { entry: wish.name, files: { [wish.name]: `${JSON.stringify(entryOf(wish, upstream), null, 2)}\n` } };
  const fail = (message: string, code?: string): void => {
    notices.clear("doing");
    const isTaken = code === "name_conflict";
    const reason = isTaken ? "There is a server of this name already: choose another name" : message;
    notices.show("failed", "bad", element("p", {}, reason));
  };
  const failReview = (message: string): void => {
    if (!signal.aborted) fail(message);
  };
  const request = { method: "POST", body: draft, signal };
  const review = (await send(`${url}/review`, request, failReview)) as Review | undefined;
  if (signal.aborted) return;
  notices.clear("doing");
  if (!review) return;
  const isRefused = review.problems.some(({ severity }) => severity === "error");
  const add = async (): Promise<void> => {
    if (save.ariaDisabled === "true") return;
    save.ariaDisabled = "true";
    const saved = await send(url, { method: "PUT", body: draft, headers: { "If-None-Match": "*" } }, fail);
    save.ariaDisabled = null;
    if (saved) location.assign(`${from.dataset["pages"]}${encodeURIComponent(wish.name)}?tab=connect`);
  };
  const save = button(`Add ${wish.name}`, () => void add(), "primary");
  save.hidden = isRefused;
  const problems = problemList(review.problems, ({ message }) => [element("span", { className: "pre-line" }, message)]);
  document
    .querySelector("#review-body")!
    .replaceChildren(
      problems,
      review.servers.length === 0 ? "" : showEffects(review),
      isRefused
        ? element("p", { className: "notice bad" }, "Nothing was added: fix the problem above, and look again.")
        : "",
      element("div", { className: "choices" }, save),
    );
  to.hidden = false;
  document.querySelector<HTMLElement>("#review-title")?.focus();
}

function wishOf(from: HTMLFormElement): UpstreamWish {
  const data = new FormData(from);
  const textOf = (field: string): string => {
    const value = data.get(field);
    return typeof value === "string" ? value.trim() : "";
  };
  return {
    name: textOf("name"),
    ...(data.has("url") && { url: textOf("url") }),
    ...(data.has("package") && { package: textOf("package") }),
    arguments: textOf("arguments")
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean),
    secrets: textOf("secrets")
      .split(/[\s,]+/)
      .filter(Boolean),
    description: textOf("description"),
  };
}

function entryOf({ description, secrets }: UpstreamWish, upstream: string): JsonObject {
  return { ...(description && { description }), upstream, ...(secrets.length > 0 && { secrets: [...secrets] }) };
}
