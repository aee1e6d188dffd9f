import { indentWithTab } from "@codemirror/commands";
import { setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { basicSetup } from "codemirror";
import type { Problem } from "../../lib/problem.ts";
import { button } from "../shared/dom.ts";
import { diagnosticOf, rangeOf } from "./text-places.ts";
import { editorTheme } from "./theme.ts";

/** One text that a person edits. */
export interface CodeEditor {
  readonly element: HTMLElement;
  text(): string;
  /** Replaces the text, as one step that can be undone. */
  replace(text: string): void;
  showProblems(problems: readonly Problem[]): void;
  /** Moves the cursor to the problem and scrolls it into view. */
  reveal(problem: Problem): void;
  focus(): void;
  /** Marks the differences from `original`, which can be taken piece by piece; undefined ends that. */
  compareWith(original: string | undefined): void;
  close(): void;
}

export interface CodeEditorOptions {
  readonly text: string;
  /** The label for screen readers. */
  readonly label: string;
  /** The id of the element that explains how to leave the editor by keyboard. */
  readonly hintId: string;
  readonly readOnly: boolean;
  readonly styleNonce: string;
  readonly extensions: Extension;
  readonly onChange: () => void;
}

export function openCodeEditor(options: CodeEditorOptions): CodeEditor {
  const comparison = new Compartment();
  const view = new EditorView({
    doc: options.text,
    extensions: [
      editorTheme(options.styleNonce),
      basicSetup,
      keymap.of(options.readOnly ? [] : [indentWithTab]),
      // A text keeps its line ends.
      options.text.includes("\r\n") ? EditorState.lineSeparator.of("\r\n") : [],
      EditorState.readOnly.of(options.readOnly),
      EditorView.contentAttributes.of({
        "aria-label": options.label,
        "aria-describedby": options.hintId,
        tabindex: "0",
      }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onChange();
      }),
      comparison.of([]),
      options.extensions,
    ],
  });

  return {
    element: view.dom,
    text: () => view.state.sliceDoc(),
    replace: (text) => {
      if (text === view.state.sliceDoc()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, userEvent: "input.replace" });
    },
    showProblems: (problems) => {
      view.dispatch(
        setDiagnostics(
          view.state,
          problems.map((problem) => diagnosticOf(view.state, problem)),
        ),
      );
    },
    reveal: (problem) => {
      const { from } = rangeOf(view.state, problem);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
    compareWith: (original) => {
      const shown = original === undefined ? [] : unifiedMergeView({ original, mergeControls });
      view.dispatch({ effects: comparison.reconfigure(shown) });
    },
    close: () => view.destroy(),
  };
}

/** Accepting a change keeps the editor's text; rejecting it takes the other text. */
function mergeControls(type: "accept" | "reject", act: (event: MouseEvent) => void): HTMLElement {
  const made = button(type === "accept" ? "Keep mine" : "Take theirs", () => {});
  made.addEventListener("mousedown", (event) => {
    // The editor keeps the focus.
    event.preventDefault();
  });
  made.addEventListener("click", act);
  return made;
}
