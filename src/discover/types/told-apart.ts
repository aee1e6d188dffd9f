import type ts from "typescript";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import type { Revival } from "./revivals.ts";

/** A member of a union with its schema, and with what in it is revived from texts. */
export interface Alternative {
  readonly member: ts.Type;
  readonly schema: JsonSchema;
  readonly revivals: readonly Revival[];
}

/**
 * The alternatives in which a text is to be revived where another alternative has a text of its own: nobody can tell
 * which of the two a caller means. `depth` is how far in the union stands.
 */
export function notToldApart(
  alternatives: readonly Alternative[],
  literals: readonly unknown[],
  depth: number,
): Alternative[] {
  const given: { schema: JsonSchema; revivals: readonly Revival[] }[] = [
    ...alternatives,
    ...literals.map((value) => ({ schema: { type: typeof value }, revivals: [] })),
  ];
  return alternatives.filter((alternative, index) =>
    alternative.revivals.some(({ kind, path }) => {
      const isSame = (other: Revival) => other.kind === kind && other.path.join("\0") === path.join("\0");
      return given.some(
        (other, otherIndex) =>
          otherIndex !== index && !other.revivals.some(isSame) && mayBeText(other.schema, path.slice(depth)),
      );
    }),
  );
}

/** True if the schema allows a text at the path. */
function mayBeText(schema: unknown, path: readonly string[]): boolean {
  if (schema === undefined || schema === false) return false;
  // Of a recursive type no more is known here.
  if (!isObject(schema) || "$ref" in schema) return true;
  const { anyOf, type, properties, items, prefixItems, additionalProperties, patternProperties } = schema;
  if (Array.isArray(anyOf)) return anyOf.some((alternative) => mayBeText(alternative, path));
  const [step, ...rest] = path;
  if (step === undefined) {
    const values = Array.isArray(schema["enum"]) ? schema["enum"] : "const" in schema ? [schema["const"]] : undefined;
    return values ? values.some((value) => typeof value === "string") : type === undefined || isOf(type, "string");
  }
  if (type === undefined) return true;
  const byName = isObject(properties) && Object.hasOwn(properties, step) ? [properties[step]] : [];
  const byPosition = Array.isArray(prefixItems) ? (step === "*" ? prefixItems : [prefixItems[Number(step)]]) : [];
  const byAnyName = isObject(patternProperties) ? Object.values(patternProperties) : [];
  const inside = [
    ...(isOf(type, "object")
      ? [...byName, ...(step === "*" && isObject(properties) ? Object.values(properties) : [])]
      : []),
    ...(isOf(type, "object") ? [additionalProperties, ...byAnyName] : []),
    ...(isOf(type, "array") ? [...byPosition, items] : []),
  ];
  return inside.some((inner) => inner !== undefined && mayBeText(inner, rest));
}

function isOf(type: unknown, wanted: string): boolean {
  return [type].flat().includes(wanted);
}
