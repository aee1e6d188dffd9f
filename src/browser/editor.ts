/**
 * The script of pages that edit and compare. It turns the texts of the page, which reads well without it, into editors:
 * each `[data-editor]` holds its setup as JSON. It talks only to the JSON API.
 */

import type { Extension } from "@codemirror/state";
import { showComparison, type ComparisonSetup } from "./editor/comparison.ts";
import { creationOf } from "./editor/creation.ts";
import { jsonSchema } from "./editor/json-schema.ts";
import type { Schema } from "./editor/schema.ts";
import type { Setup } from "./editor/setup.ts";
import { openSubjectEditor, type Grant, type SubjectEditor } from "./editor/subject-editor.ts";
import { refreshPage } from "./shared/refresh-page.ts";

const editors: SubjectEditor[] = [];
let entryEditor: SubjectEditor | undefined;

for (const place of document.querySelectorAll<HTMLElement>("[data-editor]")) {
  const { schema, ...said } = setupOf(place) as Setup & { readonly schema?: Schema };
  const setup = { ...said, files: { ...textsOf(place), ...said.files } };
  const extensions: Extension = schema === undefined ? [] : jsonSchema(schema);
  const onCreated = creationOf(place, setup.name);
  const editor = openSubjectEditor(setup, { extensions, onCreated, onSaved: () => void afterSave(editor) });
  editors.push(editor);
  if (setup.kind === "entry") entryEditor = editor;
  place.replaceChildren(editor.element);
  place.parentElement?.addEventListener("click", ({ target }) => {
    const cid = target instanceof HTMLElement ? target.dataset["restore"] : undefined;
    if (cid !== undefined) void editor.restore(cid);
  });
}
showControls();

// A save replaces the buttons.
document.addEventListener("click", ({ target }) => {
  const grants = target instanceof HTMLElement ? target.dataset["grant"] : undefined;
  if (grants !== undefined) void entryEditor?.grant(JSON.parse(grants) as Grant[]);
});

for (const place of document.querySelectorAll<HTMLElement>("[data-comparison]")) {
  showComparison(place, setupOf(place) as ComparisonSetup);
}

window.addEventListener("beforeunload", (event) => {
  for (const editor of editors) editor.keep();
  if (editors.some((editor) => editor.isDirty())) event.preventDefault();
});
// A person who comes back to a page may find that somebody else has saved.
window.addEventListener("focus", () => {
  for (const editor of editors) void editor.refresh();
});

async function afterSave(saved: SubjectEditor): Promise<void> {
  await refreshPage();
  showControls();
  for (const editor of editors) if (editor !== saved) await editor.refresh();
}

/** Shows controls that only work with scripts. */
function showControls(): void {
  for (const each of document.querySelectorAll<HTMLElement>("[data-restore], [data-grant]")) each.hidden = false;
}

/**
 * Reads the texts from the page, which has them once, readable without scripts. Its setup has only those that HTML
 * cannot hold.
 */
function textsOf(place: HTMLElement): Record<string, string> {
  const texts = [...place.querySelectorAll<HTMLTextAreaElement>("textarea[data-path]")];
  return Object.fromEntries(texts.map(({ dataset, defaultValue }) => [dataset["path"]!, defaultValue]));
}

function setupOf(place: HTMLElement): unknown {
  return JSON.parse(place.querySelector("script")?.textContent ?? "null");
}
