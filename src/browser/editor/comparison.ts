import { MergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { minimalSetup } from "codemirror";
import { button, element } from "./dom.ts";
import { languageOf } from "./language.ts";
import { editorTheme } from "./theme.ts";

export interface ComparisonSetup {
  readonly styleNonce: string;
  readonly language: string;
  readonly files: readonly { readonly path: string; readonly before: string; readonly after: string }[];
}

/** Where there is room, offers both texts side by side instead of the lines that changed. */
export function showComparison(place: HTMLElement, setup: ComparisonSetup): void {
  const sections = [...place.querySelectorAll<HTMLElement>(".compared")];
  const views: MergeView[] = [];
  const toggle = button("", () => (views.length > 0 ? showLines() : showSides()), "wide-only");
  const label = (): void => {
    toggle.textContent = views.length > 0 ? "Show the changed lines" : "Show side by side";
  };

  const showSides = (): void => {
    for (const [index, section] of sections.entries()) {
      const { path, before, after } = setup.files[index]!;
      const extensions = (side: string): Extension => [
        editorTheme(setup.styleNonce),
        minimalSetup,
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ "aria-label": `${path}, ${side}`, tabindex: "0" }),
        languageOf(path, setup.language),
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
      section.querySelector("pre")!.hidden = true;
    }
    label();
  };

  const showLines = (): void => {
    for (const view of views.splice(0)) view.destroy();
    for (const section of sections) {
      section.querySelector(".sides")?.remove();
      section.querySelector("pre")!.hidden = false;
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
