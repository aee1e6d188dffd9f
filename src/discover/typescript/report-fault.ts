import ts from "#typescript";
import type { Reporter } from "./reporter.ts";
import { pathKey, written, type Fault } from "./types/walker.ts";

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
  const place = placeOf(fault);
  const also = fault.leftOut === undefined ? "" : sayLeftOut(fault.leftOut, fault.others);
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
  reporter.add(fault.severity, fault.code, `${also}${fault.message}${detail ? `: ${detail}` : ""}${place}`, node);
}

/** Reports an argument's faults: one error, and one warning for everything left out, however much that is. */
export function summarize(faults: readonly Fault[]): Fault[] {
  const kindOf = ({ severity, leftOut, path }: Fault): string =>
    severity === "error" || leftOut !== undefined ? JSON.stringify([severity, path[0]]) : "";
  const groups = new Map<string, Fault[]>();
  for (const fault of faults) groups.set(kindOf(fault), [...(groups.get(kindOf(fault)) ?? []), fault]);
  return [...groups].flatMap(([kind, group]) => (kind === "" ? group : [oneOf(group)]));
}

function oneOf([first, ...others]: readonly Fault[]): Fault {
  const names = others.map(({ leftOut, path }) => leftOut ?? written(path));
  const own = first!.leftOut ?? written(first!.path);
  return { ...first!, others: [...new Set(names)].filter((name) => name !== own) };
}

/** ` (at plan.name; more at plan.steps[].run)` */
function placeOf({ path, leftOut, others = [] }: Fault): string {
  const more = leftOut === undefined && others.length > 0 ? `; more at ${listNames(others)}` : "";
  return path.length > 0 && !leftOut?.endsWith(written(path)) ? ` (at ${written(path)}${more})` : "";
}

function sayLeftOut(leftOut: string, others: readonly string[] = []): string {
  return others.length > 0
    ? `${leftOut} cannot be given, nor can ${listNames(others)}: `
    : `${leftOut} cannot be given: `;
}

/** `a, b and c`; of more than `max` and another one, the first and how many others there are. */
export function listNames(names: readonly string[], max = 3): string {
  const all = names.length > max + 1 ? [...names.slice(0, max), `${names.length - max} others`] : names;
  return [...all.slice(0, -2), all.slice(-2).join(" and ")].join(", ");
}

function isInside(node: ts.Node, outer: ts.Node): boolean {
  return ts.findAncestor(node, (it) => it === outer) !== undefined;
}
