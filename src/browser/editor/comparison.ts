import { MergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { minimalSetup } from "codemirror";
import { button, element } from "../shared/dom.ts";
import { cidNames } from "./cid-names.ts";
import { languageOf } from "./language.ts";
import { editorTheme } from "./theme.ts";

export interface ComparisonSetup {
  readonly styleNonce: string;
  readonly language: string;
  /** The names of files behind CIDs in the texts. */
  readonly names: readonly (readonly [cid: string, file: string])[];
  /** Null for a file that is too long. */
  readonly files: readonly ({ readonly path: string; readonly before: string; readonly after: string } | null)[];
}

/** If there is room, offers both texts side by side instead of the changed lines. */
export function showComparison(place: HTMLElement, setup: ComparisonSetup): void {
  const sections = [...place.querySelectorAll<HTMLElement>(".compared")].flatMap((section, index) => {
    const file = setup.files[index];
    // For versions that are too different, it holds a notice.
    return file ? [{ section, file, lines: section.querySelector<HTMLElement>("pre, .notice")! }] : [];
  });
  const views: MergeView[] = [];
  const toggle = button("", () => (views.length > 0 ? showLines() : showSides()), "wide-only");
  const label = (): void => {
    toggle.textContent = views.length > 0 ? "Show the changed lines" : "Show side by side";
  };

  const showSides = (): void => {
    for (const { section, file, lines } of sections) {
      const { path, before, after } = file;
      const extensions = (side: string): Extension => [
        editorTheme(setup.styleNonce),
        minimalSetup,
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ "aria-label": `${path}, ${side}`, tabindex: "0" }),
        languageOf(path, setup.language),
        cidNames(new Map(setup.names)),
      ];
      const parent = element("div", { className: "sides" });
      section.append(parent);
      views.push(
        new MergeView({
          a: { doc: before, extensions: extensions("before") },
          b: { doc: after, extensions: extensions("after") },
          parent,
          collapseUnchanged: { margin: 3, minSize: 4 },
        }),
      );
      lines.hidden = true;
    }
    label();
  };

  const showLines = (): void => {
    for (const view of views.splice(0)) view.destroy();
    for (const { section, lines } of sections) {
      section.querySelector(".sides")?.remove();
      lines.hidden = false;
    }
    label();
  };

  label();
  if (sections.length > 0) place.prepend(toggle);
  const wide = matchMedia("(min-width: 60rem)");
  wide.addEventListener("change", () => {
    showLines();
    if (wide.matches) showSides();
  });
  if (wide.matches) showSides();
}
