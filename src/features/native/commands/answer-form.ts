import { choicesOf, shown } from "../../../commands/terminal.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { printableJson, printableLine } from "../../../lib/printable.ts";

/**
 * The questions of a call, and the option that answers them together with `earlier` ones, to be pasted into a shell.
 * Undefined when one of them cannot be answered like this.
 */
export function answerForm(requests: JsonObject, earlier: JsonObject): string | undefined {
  const lines: string[] = [];
  const answers: [string, Json][] = Object.entries(earlier);
  for (const [key, request] of Object.entries(requests)) {
    const { method, params } = request as { method: string; params: JsonObject };
    if (method !== "elicitation/create") return undefined;
    const isPage = params["mode"] === "url";
    lines.push(shown(params["message"]), ...(isPage ? [shown(params["url"])] : []));
    const form = params["requestedSchema"];
    const properties = isObject(form) && isObject(form["properties"]) ? Object.entries(form["properties"]) : [];
    const fields = properties.map(([name, field]) => [name, isObject(field) ? field : {}] as const);
    for (const [name, field] of isPage ? [] : fields) lines.push(printableLine(`  ${name}: ${about(field)}`));
    const content = Object.fromEntries(fields.map(([name, field]) => [name, example(field)]));
    answers.push([key, isPage ? { action: "accept" } : { action: "accept", content }]);
  }
  const json = printableJson(JSON.stringify(Object.fromEntries(answers)));
  return [...lines, "", `--answers '${json.replaceAll("'", "'\\''")}'`].map((line) => `  ${line}`).join("\n");
}

type Field = Record<string, unknown>;

function about(field: Field): string {
  const { type = "string", title, description } = field;
  const values = (choicesOf(field) ?? []).map(({ value }) => JSON.stringify(value));
  const texts = [title, description].filter((text) => typeof text === "string");
  return [values.length > 0 ? values.join(" or ") : String(type), ...texts].join(", ");
}

function example(field: Field): Json {
  const { default: otherwise, type } = field;
  const [first] = choicesOf(field) ?? [];
  if (otherwise !== undefined || first) return (otherwise as Json | undefined) ?? first!.value;
  if (type === "array") return [];
  return type === "boolean" ? false : type === "number" || type === "integer" ? 0 : "text";
}
