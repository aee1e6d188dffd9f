import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";

/** A template-literal type, or one of the four string mappings over `string`, as a string with a pattern. */
export function walkTemplate(type: ts.Type): JsonSchema {
  return { type: "string", pattern: `^${toPattern(type)}$` };
}

/** An intersection of templates, each of which a string must match. */
export function walkTemplates([first, ...rest]: readonly ts.Type[]): JsonSchema {
  return { ...walkTemplate(first!), allOf: rest.map((type) => ({ pattern: `^${toPattern(type)}$` })) };
}

const numberPattern = "[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?";
const anyText = "[\\s\\S]*";

export function toPattern(type: ts.Type): string {
  if (type.isUnion()) return `(?:${type.types.map(toPattern).join("|")})`;
  if (type.isStringLiteral() || type.isNumberLiteral()) return escape(String(type.value));
  if (type.flags & ts.TypeFlags.TemplateLiteral) {
    const { texts, types } = type as ts.TemplateLiteralType;
    return texts.map((text, index) => escape(text) + (types[index] ? toPattern(types[index]) : "")).join("");
  }
  if (type.flags & ts.TypeFlags.StringMapping) return mappingPattern(type as ts.StringMappingType);
  if (type.flags & ts.TypeFlags.NumberLike) return numberPattern;
  if (type.flags & ts.TypeFlags.BigIntLike) return "-?\\d+";
  if (type.flags & ts.TypeFlags.BooleanLike) return "(?:true|false)";
  if (type.flags & ts.TypeFlags.Null) return "null";
  if (type.flags & ts.TypeFlags.Undefined) return "undefined";
  return anyText;
}

/** The pattern expresses the mapping only over `string`; over anything else, it accepts any text. */
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

/** Escapes special characters in a form that both `u`-mode JavaScript and RE2 accept. */
export function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
