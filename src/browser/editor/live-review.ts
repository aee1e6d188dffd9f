import type { Review } from "../../contract/review.ts";
import { formatLocation, type Problem } from "../../lib/problem.ts";
import { button, element, problemList } from "../shared/dom.ts";
import type { EditApi } from "./api.ts";
import type { EditedText } from "./edited-text.ts";
import { showEffects } from "./effects.ts";

const REVIEW_AFTER_MS = 500;
/** Packages are the only errors that a page shows elsewhere. */
const NOT_READY = "No other problems. Add the packages that are listed above first.";

/** The problems of a text and the effects of saving it, updated whenever the person pauses writing. */
export interface LiveReview {
  readonly problems: HTMLElement;
  readonly effects: HTMLElement;
  now(): Promise<void>;
  soon(): void;
  show(found: Review): void;
}

export interface LiveReviewOptions {
  /** Called whenever a check finds no error. */
  readonly onSound: () => void;
  /** True for a problem that the page deals with elsewhere. */
  readonly isElsewhere?: ((problem: Problem) => boolean) | undefined;
}

export function openLiveReview(
  api: EditApi,
  text: EditedText,
  { onSound, isElsewhere = () => false }: LiveReviewOptions,
): LiveReview {
  const problems = element("div", { className: "editor-problems" });
  problems.setAttribute("aria-live", "polite");
  const effects = element("div", { className: "editor-effects" });
  effects.setAttribute("aria-live", "polite");
  let reviewing = new AbortController();
  let timer = 0;

  const now = async (): Promise<void> => {
    reviewing = new AbortController();
    const { signal } = reviewing;
    try {
      const found = await api.review(text.files.draft(), signal);
      if (!signal.aborted) show(found);
    } catch (error) {
      if (signal.aborted) return;
      problems.ariaBusy = null;
      problems.replaceChildren(element("p", { className: "muted" }, (error as Error).message));
    }
  };

  /** Takes back what was found, which is no longer true of the text. The page stays as high as it was. */
  const expectNews = (): void => {
    if (problems.ariaBusy === "true") return;
    problems.style.minHeight = `${problems.offsetHeight}px`;
    problems.ariaBusy = "true";
    problems.replaceChildren(element("p", { className: "muted" }, "Checking…"));
    effects.replaceChildren();
    text.files.showProblems([]);
  };

  const show = (found: Review): void => {
    problems.style.minHeight = "";
    problems.ariaBusy = null;
    const shown = found.problems.filter((problem) => !isElsewhere(problem));
    if (!shown.some(({ severity }) => severity === "error")) onSound();
    text.files.showProblems(shown);
    const isReady = !found.problems.some(({ severity }) => severity === "error");
    // The head of the page lists the problems of the saved text, and links to where its grants are given.
    const head = text.isDirty() ? null : document.querySelector("#server-head");
    const grants = head?.querySelector(".to-settings");
    const isInHead = ({ code, message }: Problem): boolean =>
      head?.textContent.includes(message) || (grants != null && code.endsWith("-requested"));
    const listed = shown.filter((problem) => !isInHead(problem));
    const none = found.problems.length === 0 ? "No problems." : "No other problems.";
    problems.replaceChildren(
      listed.length === 0
        ? element("p", { className: "muted" }, isReady || shown.length > 0 ? none : NOT_READY)
        : problemList(listed, (problem) => {
            const place = button(formatLocation(problem) || "the beginning", () => text.files.reveal(problem), "place");
            return [problem.message, " ", place];
          }),
    );
    effects.replaceChildren(...(text.isDirty() ? effectsOf(found) : []));
  };

  return {
    problems,
    effects,
    now,
    soon() {
      reviewing.abort();
      expectNews();
      clearTimeout(timer);
      timer = window.setTimeout(() => void now(), REVIEW_AFTER_MS);
    },
    show,
  };
}

function effectsOf(found: Review): Node[] {
  if (found.servers.length > 0) return [element("h3", {}, headingOf(found)), showEffects(found)];
  if (found.problems.some(({ severity }) => severity === "error")) return [];
  return [element("p", { className: "muted" }, "Saving this changes no server.")];
}

function headingOf({ servers }: Review): string {
  return servers.every(({ outcome }) => outcome === "added") ? "What it offers" : "What saving would change";
}
