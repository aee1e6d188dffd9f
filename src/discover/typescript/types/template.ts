import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";

/** A template-literal type, or one of the four string mappings over `string`, as a string with a pattern. */
export function walkTemplate(type: ts.Type): JsonSchema {
  return { type: "string", pattern: `^${patternOf(type)}$` };
}

/** Several of them, each of which a text has to match. */
export function walkTemplates([first, ...others]: readonly ts.Type[]): JsonSchema {
  return { ...walkTemplate(first!), allOf: others.map((type) => ({ pattern: `^${patternOf(type)}$` })) };
}

const numberPattern = "[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?";
const anyText = "[\\s\\S]*";

export function patternOf(type: ts.Type): string {
  if (type.isUnion()) return `(?:${type.types.map(patternOf).join("|")})`;
  if (type.isStringLiteral() || type.isNumberLiteral()) return escape(String(type.value));
  if (type.flags & ts.TypeFlags.TemplateLiteral) {
    const { texts, types } = type as ts.TemplateLiteralType;
    return texts.map((text, index) => escape(text) + (types[index] ? patternOf(types[index]) : "")).join("");
  }
  if (type.flags & ts.TypeFlags.StringMapping) return mappingPattern(type as ts.StringMappingType);
  if (type.flags & ts.TypeFlags.NumberLike) return numberPattern;
  if (type.flags & ts.TypeFlags.BigIntLike) return "-?\\d+";
  if (type.flags & ts.TypeFlags.BooleanLike) return "(?:true|false)";
  if (type.flags & ts.TypeFlags.Null) return "null";
  if (type.flags & ts.TypeFlags.Undefined) return "undefined";
  return anyText;
}

/** Only over `string` does the pattern say what the mapping says; over a template it stays what the template is. */
function mappingPattern(type: ts.StringMappingType): string {
  if (!(type.type.flags & ts.TypeFlags.String)) return anyText;
  switch (type.symbol.name) {
    case "Uppercase":
      return "[^a-z]*";
    case "Lowercase":
      return "[^A-Z]*";
    case "Capitalize":
      return `(?:[^a-z]${anyText})?`;
    default:
      return `(?:[^A-Z]${anyText})?`;
  }
}

/** Characters with a meaning, as `u`-mode JavaScript and RE2 both read them. */
export function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
