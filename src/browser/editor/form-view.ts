import { entryTextOf, readEntryText } from "../settings/entry-value.ts";
import { openSettingsForm, type KnownSettings } from "../settings/settings-form.tsx";
import { button, element } from "../shared/dom.ts";
import type { FileTabs } from "./file-tabs.ts";
import type { Setup } from "./setup.ts";

/** Two views of an entry's text: a form, and the JSON itself. Each change in one is in the other. */
export interface FormView {
  readonly element: HTMLElement;
  /** The files of the text, whose problems are shown in both views. */
  readonly files: FileTabs;
  /** The text has changed. */
  follow(): void;
}

/** `hint` is about the JSON view alone. */
export function openFormView(
  { name, readOnly }: Setup,
  known: KnownSettings,
  files: FileTabs,
  hint: HTMLElement,
): FormView {
  const read = () => readEntryText(files.draft().files[name] ?? "");
  const form = openSettingsForm({
    known,
    readOnly,
    onChange: (entry) => files.replace({ entry: name, files: { [name]: entryTextOf(entry) } }),
  });
  const views = { Form: form.element, JSON: files.element };
  const buttons = Object.keys(views).map((label) => button(label, () => show(label as keyof typeof views)));
  const choice = element("div", { className: "switch" }, ...buttons);
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "How to see the entry");

  const show = (label: keyof typeof views): void => {
    for (const [each, view] of Object.entries(views)) view.hidden = each !== label;
    for (const each of buttons) each.ariaPressed = String(each.textContent === label);
    hint.hidden = label === "Form";
  };

  form.show(read());
  show(read() ? "Form" : "JSON");
  return {
    element: element("div", {}, choice, form.element, files.element),
    files: {
      ...files,
      showProblems(problems) {
        files.showProblems(problems);
        form.showProblems(problems);
      },
      reveal(problem) {
        if (!form.element.hidden && form.reveal(problem)) return;
        show("JSON");
        files.reveal(problem);
      },
    },
    follow: () => form.show(read()),
  };
}
