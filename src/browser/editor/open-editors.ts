import type { Extension } from "@codemirror/state";
import { showScripted } from "../shared/dom.ts";
import { refreshPage } from "../shared/refresh-page.ts";
import { cidNames } from "./cid-names.ts";
import { creationOf, shownElsewhere } from "./creation.ts";
import { jsonSchema } from "./json-schema.ts";
import type { Schema } from "./schema.ts";
import type { Setup } from "./setup.ts";
import { openSubjectEditor, type Grant, type SubjectEditor } from "./subject-editor.ts";

/** All editors of the page. */
const editors: SubjectEditor[] = [];
let entryEditor: SubjectEditor | undefined;

window.addEventListener("beforeunload", (event) => {
  for (const editor of editors) editor.keep();
  if (editors.some((editor) => editor.isDirty())) event.preventDefault();
});
// Another user may have saved while this page was in the background.
window.addEventListener("focus", () => {
  for (const editor of editors) void editor.refresh();
});

// A save replaces the buttons.
document.addEventListener("click", ({ target }) => {
  const grants = target instanceof HTMLElement ? target.dataset["grant"] : undefined;
  if (grants !== undefined) void entryEditor?.grant(JSON.parse(grants) as Grant[]);
});

export interface EditorsOptions {
  /** The nonce of the document, where its text came later. */
  readonly styleNonce?: string | undefined;
  /** Called after each save. */
  readonly onSaved?: () => void;
}

/** Turns texts, which read well without scripts, into editors: each `[data-editor]` holds its setup as JSON. */
export function openEditors(root: ParentNode, { styleNonce, onSaved }: EditorsOptions = {}): void {
  for (const place of root.querySelectorAll<HTMLElement>("[data-editor]")) {
    const { schema, ...said } = setupOf(place) as Setup & { readonly schema?: Schema };
    const files = { ...textsOf(place), ...said.files };
    const setup = { ...said, files, ...(styleNonce !== undefined && { styleNonce }) };
    const extensions: Extension = [schema === undefined ? [] : jsonSchema(schema), cidNames(new Map(setup.names))];
    const afterSave = async (): Promise<void> => {
      await refreshPage();
      showScripted();
      onSaved?.();
      for (const each of editors) if (each !== editor) await each.refresh();
    };
    const editor = openSubjectEditor(setup, {
      extensions,
      onCreated: creationOf(place, setup.name),
      isElsewhere: shownElsewhere(place),
      onSaved: () => void afterSave(),
    });
    editors.push(editor);
    if (setup.kind === "entry") entryEditor = editor;
    place.replaceChildren(editor.element);
    place.parentElement?.addEventListener("click", ({ target }) => {
      const cid = target instanceof HTMLElement ? target.dataset["restore"] : undefined;
      if (cid !== undefined) void editor.restore(cid);
    });
  }
  showScripted();
}

/**
 * Reads the texts from the page, which has them once, readable without scripts. Its setup has only those that HTML
 * cannot hold.
 */
function textsOf(place: HTMLElement): Record<string, string> {
  const texts = [...place.querySelectorAll<HTMLTextAreaElement>("textarea[data-path]")];
  return Object.fromEntries(texts.map(({ dataset, defaultValue }) => [dataset["path"]!, defaultValue]));
}

/** The setup of an editor or a comparison, as JSON in its place. */
export function setupOf(place: HTMLElement): unknown {
  return JSON.parse(place.querySelector("script")?.textContent ?? "null");
}
