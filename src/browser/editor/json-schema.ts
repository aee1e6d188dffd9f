import { autocompletion } from "@codemirror/autocomplete";
import type { EditorState, Extension } from "@codemirror/state";
import { hoverTooltip } from "@codemirror/view";
import { element } from "../shared/dom.ts";
import { completeJson } from "./complete-json.ts";
import { descriptionOf, schemasAt, typesOf, type Schema } from "./schema.ts";
import { jsonPlaceAt } from "./text-places.ts";

/** Completions and explanations for a JSON text, from its schema. */
export function jsonSchema(schema: Schema): Extension {
  return [autocompletion({ override: [completeJson(schema)] }), explainJson(schema)];
}

/** Explains the name or value under the pointer by the schema. */
function explainJson(schema: Schema): Extension {
  return hoverTooltip((view, position) => {
    const shown = explanationAt(view.state, schema, position);
    if (!shown) return null;
    return {
      pos: shown.from,
      end: shown.to,
      above: true,
      create: () => ({
        dom: element(
          "div",
          { className: "explanation" },
          element("strong", {}, shown.name),
          shown.type === "" ? "" : element("span", {}, ` ${shown.type}`),
          shown.description === undefined ? "" : element("p", {}, shown.description),
          shown.fallback === undefined ? "" : element("p", {}, "When left out: ", element("code", {}, shown.fallback)),
        ),
      }),
    };
  });
}

interface Explanation {
  readonly from: number;
  readonly to: number;
  readonly name: string;
  readonly type: string;
  readonly description: string | undefined;
  readonly fallback: string | undefined;
}

/** Undefined when the schema says nothing. */
function explanationAt(state: EditorState, schema: Schema, position: number): Explanation | undefined {
  const place = jsonPlaceAt(state, position) ?? jsonPlaceAt(state, position + 1);
  if (!place || place.from === place.to) return undefined;
  const written = state.sliceDoc(place.from, place.to).replaceAll('"', "");
  const path = place.kind === "name" ? [...place.path, written] : place.path;
  const schemas = schemasAt(schema, path);
  const description = descriptionOf(schemas);
  const withDefault = schemas.find((each) => "default" in each);
  const type = typesOf(schemas).join(" or ");
  if (description === undefined && type === "") return undefined;
  return {
    from: place.from,
    to: place.to,
    name: String(path.at(-1) ?? ""),
    type,
    description,
    fallback: withDefault && JSON.stringify(withDefault.default),
  };
}
