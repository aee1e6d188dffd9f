import ts from "#typescript";
import { evaluate } from "./evaluate.ts";
import type { Binding, Path } from "./types/walker.ts";

/** Facts that a destructuring pattern states about the properties it takes, by path: `{ retry: { attempts = 2 } }`. */
export function bindingsOf(
  pattern: ts.BindingPattern,
  start: Path,
  checker: ts.TypeChecker,
  found = new Map<string, Binding & { node: ts.BindingElement }>(),
): ReadonlyMap<string, Binding & { node: ts.BindingElement }> {
  if (!ts.isObjectBindingPattern(pattern)) return found;
  for (const element of pattern.elements) {
    if (element.dotDotDotToken) continue;
    const name = nameOf(element, checker);
    if (name === undefined) continue;
    const path = [...start, name];
    found.set(pathKey(path), { initializer: element.initializer, node: element });
    if (!ts.isIdentifier(element.name)) bindingsOf(element.name, path, checker, found);
  }
  return found;
}

export function pathKey(path: Path): string {
  return JSON.stringify(path);
}

function nameOf(element: ts.BindingElement, checker: ts.TypeChecker): string | undefined {
  const name = element.propertyName ?? element.name;
  if (ts.isComputedPropertyName(name)) {
    const value = evaluate(name.expression, checker);
    return typeof value === "string" ? value : undefined;
  }
  return "text" in name ? name.text : undefined;
}
