import { parseUriTemplate, type Expression } from "../../../discover/uri-template.ts";
import type { JsonObject } from "../../../lib/json.ts";

/**
 * Expands a URI template (RFC 6570, section 3.2); `values` are texts or lists of texts, and missing ones are left out.
 */
export function expandTemplate(text: string, values: JsonObject): string {
  const template = parseUriTemplate(text);
  if ("message" in template) throw new TypeError(`${text} is no URI template: ${template.message}`);
  return template.parts.map((part) => (typeof part === "string" ? part : expand(part, values))).join("");
}

const SEPARATORS: Readonly<Record<string, string>> = { "": ",", "+": ",", "#": "," };
const FIRST: Readonly<Record<string, string>> = { "": "", "+": "" };

function expand({ operator, variables }: Expression, values: JsonObject): string {
  const isNamed = operator === ";" || operator === "?" || operator === "&";
  const separator = operator === "?" ? "&" : (SEPARATORS[operator] ?? operator);
  const encode = operator === "+" || operator === "#" ? encodeReserved : encodeValue;
  const found = variables.flatMap(({ name, explode, prefix }) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const texts = (value === undefined || value === null ? [] : [value].flat()).map(String);
    if (texts.length === 0) return [];
    const written = texts.map((each) =>
      encode(prefix === undefined ? each : Array.from(each).slice(0, prefix).join("")),
    );
    const all = explode ? written : [written.join(",")];
    return isNamed ? all.map((each) => (each === "" && operator === ";" ? name : `${name}=${each}`)) : all;
  });
  return found.length === 0 ? "" : `${FIRST[operator] ?? operator}${found.join(separator)}`;
}

function encodeValue(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Reserved characters and existing escapes stay as they are. */
function encodeReserved(text: string): string {
  return encodeURI(text)
    .replace(/%5B/g, "[")
    .replace(/%5D/g, "]")
    .replace(/%25(?=[\dA-Fa-f]{2})/g, "%");
}
