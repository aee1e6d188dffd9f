import type { Draft } from "../../lib/draft.ts";
import type { Problem } from "../../lib/problem.ts";
import { button, element } from "../shared/dom.ts";
import type { CodeEditor } from "./code-editor.ts";

/** The texts of one draft, each in its own editor; one of them is shown at a time. */
export interface FileTabs {
  readonly element: HTMLElement;
  draft(): Draft;
  /** Replaces the texts by those of `draft`; each change can be undone in its editor. */
  replace(draft: Draft): void;
  showProblems(problems: readonly Problem[]): void;
  reveal(problem: Problem): void;
  compareWith(original: Draft | undefined): void;
  focus(): void;
}

export interface FileTabsOptions {
  readonly draft: Draft;
  /** True when files can be added and removed. */
  readonly several: boolean;
  readonly open: (path: string, text: string) => CodeEditor;
  readonly onChange: () => void;
}

export function openFileTabs({ draft, several, open, onChange }: FileTabsOptions): FileTabs {
  const editors = new Map<string, CodeEditor>();
  const panels = element("div", { className: "editor-panels" });
  const tabs = element("div", { className: "editor-tabs" });
  const list = element("div", { className: "editor-tab-list" });
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Files");
  const remove = button("Remove file", () => removeShown(), "small");
  tabs.append(list, element("span", { className: "editor-tab-actions" }, adding(), remove));
  const entry = draft.entry;
  let shown = entry;

  const add = (path: string, text: string): void => {
    const editor = open(path, text);
    editors.set(path, editor);
    panels.append(editor.element);
  };

  const show = (path: string): void => {
    shown = path;
    for (const [each, editor] of editors) editor.element.hidden = each !== path;
    // The main file and what it imports, in that order.
    const paths = [entry, ...[...editors.keys()].filter((each) => each !== entry).sort()];
    list.replaceChildren(...paths.map(tabOf));
    remove.hidden = path === entry;
  };

  const tabOf = (path: string): HTMLElement => {
    const tab = button(path, () => {
      show(path);
      editors.get(path)?.focus();
    });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", String(path === shown));
    tab.tabIndex = path === shown ? 0 : -1;
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step === undefined) return;
      const all = [...list.children] as HTMLElement[];
      const next = all[(all.indexOf(tab) + step + all.length) % all.length]!.textContent;
      show(next);
      (list.querySelector('[aria-selected="true"]') as HTMLElement).focus();
    });
    return tab;
  };

  const removeShown = (): void => {
    editors.get(shown)?.close();
    editors.delete(shown);
    show(entry);
    onChange();
  };

  function adding(): HTMLElement {
    const path = element("input", { name: "path", placeholder: "helpers.ts", required: true, size: 14 });
    path.setAttribute("aria-label", "Path of the new file");
    const form = element("form", { className: "inline" }, path, element("button", { className: "small" }, "Add file"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = path.value.trim();
      if (!editors.has(name)) add(name, "");
      form.reset();
      show(name);
      editors.get(name)!.focus();
      onChange();
    });
    return form;
  }

  for (const [path, text] of Object.entries(draft.files)) add(path, text);
  show(entry);

  return {
    element: element("div", { className: "editor-files" }, several ? tabs : "", panels),
    draft: () => ({
      entry,
      files: Object.fromEntries([...editors].map(([path, editor]) => [path, editor.text()])),
    }),
    replace: ({ files }) => {
      for (const [path, editor] of editors) {
        if (path in files) continue;
        editor.close();
        editors.delete(path);
      }
      for (const [path, text] of Object.entries(files)) {
        if (editors.has(path)) editors.get(path)!.replace(text);
        else add(path, text);
      }
      show(editors.has(shown) ? shown : entry);
      onChange();
    },
    showProblems: (problems) => {
      for (const [path, editor] of editors) editor.showProblems(problems.filter((each) => fileOf(each) === path));
    },
    reveal: (problem) => {
      show(fileOf(problem));
      editors.get(shown)?.reveal(problem);
    },
    compareWith: (original) => {
      for (const [path, editor] of editors) editor.compareWith(original && (original.files[path] ?? ""));
    },
    focus: () => editors.get(shown)?.focus(),
  };

  /** The file to show a problem with; for one of a file that is not here, the main one. */
  function fileOf({ file }: Problem): string {
    return file !== undefined && editors.has(file) ? file : entry;
  }
}
