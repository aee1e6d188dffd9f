import ts from "#typescript";
import { pathKey } from "./bindings.ts";
import type { Reporter } from "./reporter.ts";
import { written, type Fault } from "./types/walker.ts";

/**
 * Says a fault found inside a type, at the place where its author would look for it: the parameter. Of arguments that
 * are taken apart, it is the property or the element that takes it, if those stand in the parameter.
 */
export function reportFault(
  fault: Fault,
  parameter: ts.Node,
  isFlat: boolean,
  bindings: ReadonlyMap<string, { node: ts.Node }>,
  reporter: Reporter,
): void {
  const place = fault.path.length > 0 ? ` (at ${written(fault.path)})` : "";
  const own =
    fault.node && (fault.severity === "warning" || (isFlat && isInside(fault.node, parameter)))
      ? fault.node
      : undefined;
  const taken = isFlat && fault.path.length > 0 ? bindings.get(pathKey(fault.path.slice(0, 1)))?.node : undefined;
  const tag =
    fault.code === "pattern-unusable" || (fault.node && ts.isJSDoc(fault.node.parent)) ? fault.node : undefined;
  const node = tag ?? own ?? taken ?? parameter;
  const detail =
    fault.code === "unresolved-type" && !fault.message.includes("imported from")
      ? (reporter.diagnosticWithin(fault.node ?? parameter) ?? reporter.diagnosticWithin(parameter))
      : undefined;
  reporter.add(fault.severity, fault.code, `${fault.message}${detail ? `: ${detail}` : ""}${place}`, node);
}

function isInside(node: ts.Node, outer: ts.Node): boolean {
  return ts.findAncestor(node, (it) => it === outer) !== undefined;
}
