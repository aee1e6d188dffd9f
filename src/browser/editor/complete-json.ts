import { startCompletion, type Completion, type CompletionSource } from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import { descriptionOf, membersOf, schemasAt, typesOf, valuesOf, type Schema, type SchemaObject } from "./schema.ts";
import { jsonPlaceAt } from "./text-places.ts";

/** Completes missing members and known values. */
export function completeJson(schema: Schema): CompletionSource {
  return ({ state, pos, explicit }) => {
    const place = jsonPlaceAt(state, pos);
    if (!place || (!explicit && place.from === place.to)) return null;
    const schemas = schemasAt(schema, place.path);
    const options = place.kind === "name" ? names(schema, schemas, place.taken) : values(schemas);
    return options.length === 0 ? null : { from: place.from, to: place.to, options, filter: true };
  };
}

function names(root: Schema, schemas: readonly SchemaObject[], taken: ReadonlySet<string>): Completion[] {
  return membersOf(root, schemas)
    .filter(({ name }) => !taken.has(name))
    .map(({ name, schemas: of, required }) => ({
      // Quoted, to match what is typed between quotes; shown without.
      label: JSON.stringify(name),
      displayLabel: name,
      type: "property",
      detail: [typesOf(of).join(" or "), required ? "required" : ""].filter(Boolean).join(", "),
      info: descriptionOf(of) ?? "",
      boost: required ? 1 : 0,
      apply: (view, _completion, from, to) => insertMember(view, { name, schemas: of, from, to }),
    }));
}

function values(schemas: readonly SchemaObject[]): Completion[] {
  const known = valuesOf(schemas).map((value) => JSON.stringify(value));
  const empty = typesOf(schemas).flatMap((type) => EMPTY[type] ?? []);
  return [...new Set([...known, ...empty])].map((label) => ({ label, type: "constant" }));
}

const EMPTY: Readonly<Record<string, string>> = { object: "{}", array: "[]", string: '""' };

/** Inserts the name with the beginning of its value, and leaves the cursor inside. */
function insertMember(
  view: EditorView,
  { name, schemas, from, to }: { name: string; schemas: readonly SchemaObject[]; from: number; to: number },
): void {
  const quoted = JSON.stringify(name);
  const after = view.state.sliceDoc(to, to + 1000).trimStart();
  if (after.startsWith(":")) {
    view.dispatch({ changes: { from, to, insert: quoted }, selection: { anchor: from + quoted.length } });
    return;
  }
  const type = typesOf(schemas)[0] ?? "";
  const value = EMPTY[type] ?? "";
  const comma = after.startsWith('"') ? "," : "";
  const start = from + quoted.length + 2;
  view.dispatch({
    changes: { from, to, insert: `${quoted}: ${value}${comma}` },
    selection: { anchor: start + (value === "" ? 0 : 1) },
  });
  if (valuesOf(schemas).length > 0) startCompletion(view);
}
