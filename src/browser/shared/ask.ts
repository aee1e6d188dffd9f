import type { Review } from "../editor/api.ts";
import { button, element } from "./dom.ts";
import { showBreaking } from "../editor/effects.ts";

/** Asks if a save may break callers. Escape and the first button say no. */
export function askBreaking(review: Review, verb: string): Promise<boolean> {
  return ask({
    title: "This breaks callers",
    content: [
      element("p", {}, "Clients that work today may fail once this is done:"),
      showBreaking(review),
      element("p", { className: "muted" }, "Earlier releases stay reachable by their CID."),
    ],
    no: "Change nothing",
    yes: `${verb} all the same`,
  });
}

export function ask(question: {
  readonly title: string;
  readonly content: readonly Node[];
  readonly no: string;
  readonly yes: string;
}): Promise<boolean> {
  return new Promise((resolve) => {
    const heading = element("h2", { id: "question" }, question.title);
    const dialog = element("dialog", { className: "question" });
    dialog.setAttribute("aria-labelledby", heading.id);
    const yes = button(question.yes, () => dialog.close("yes"), "danger");
    const no = button(question.no, () => dialog.close());
    dialog.append(heading, ...question.content, element("div", { className: "choices" }, no, yes));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}
