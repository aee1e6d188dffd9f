import { button, element } from "./dom.ts";

/** Asks a question with two answers. Escape and the first button say no. */
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
