import { autocompletion } from "@codemirror/autocomplete";
import type { Extension } from "@codemirror/state";
import { completeJson } from "./complete-json.ts";
import { explainJson } from "./explain-json.ts";
import type { Schema } from "./schema.ts";

/** Completions and explanations for a JSON text, from its schema. */
export function jsonSchema(schema: Schema): Extension {
  return [autocompletion({ override: [completeJson(schema)] }), explainJson(schema)];
}
