import ts from "#typescript";
import type { Reporter } from "./reporter.ts";
import { pathKey, formatPath, type Fault } from "./types/walker.ts";

/** Reports a fault inside a type at the parameter, or at the binding of a destructured argument in it. */
export function reportFault(
  fault: Fault,
  parameter: ts.Node,
  isFlat: boolean,
  bindings: ReadonlyMap<string, { node: ts.Node }>,
  reporter: Reporter,
): void {
  const place = formatPlace(fault);
  const prefix = fault.leftOut === undefined ? "" : describeLeftOut(fault.leftOut, fault.others);
  const own =
    fault.node && (fault.severity === "warning" || (isFlat && isInside(fault.node, parameter)))
      ? fault.node
      : undefined;
  const binding = isFlat && fault.path.length > 0 ? bindings.get(pathKey(fault.path.slice(0, 1)))?.node : undefined;
  const tag =
    fault.code === "pattern-unusable" || (fault.node && ts.isJSDoc(fault.node.parent)) ? fault.node : undefined;
  const node = tag ?? own ?? binding ?? parameter;
  const detail =
    fault.code === "unresolved-type" && !fault.message.includes("imported from")
      ? (reporter.diagnosticWithin(fault.node ?? parameter) ?? reporter.diagnosticWithin(parameter))
      : undefined;
  reporter.add(fault.severity, fault.code, `${prefix}${fault.message}${detail ? `: ${detail}` : ""}${place}`, node);
}

/** Merges an argument's faults: one error, and one warning for everything left out. */
export function summarize(faults: readonly Fault[]): Fault[] {
  const groupKey = ({ severity, leftOut, path }: Fault): string =>
    severity === "error" || leftOut !== undefined ? JSON.stringify([severity, path[0]]) : "";
  const groups = new Map<string, Fault[]>();
  for (const fault of faults) groups.set(groupKey(fault), [...(groups.get(groupKey(fault)) ?? []), fault]);
  return [...groups].flatMap(([kind, group]) => (kind === "" ? group : [mergeFaults(group)]));
}

function mergeFaults([first, ...others]: readonly Fault[]): Fault {
  const names = others.map(({ leftOut, path }) => leftOut ?? formatPath(path));
  const own = first!.leftOut ?? formatPath(first!.path);
  return { ...first!, others: [...new Set(names)].filter((name) => name !== own) };
}

/** ` (at plan.name; more at plan.steps[].run)` */
function formatPlace({ path, leftOut, others = [] }: Fault): string {
  const more = leftOut === undefined && others.length > 0 ? `; more at ${listNames(others)}` : "";
  return path.length > 0 && !leftOut?.endsWith(formatPath(path)) ? ` (at ${formatPath(path)}${more})` : "";
}

function describeLeftOut(leftOut: string, others: readonly string[] = []): string {
  return others.length > 0
    ? `${leftOut} cannot be given, nor can ${listNames(others)}: `
    : `${leftOut} cannot be given: `;
}

/** `a, b and c`; of many more than `max`, the first ones and the number of others. */
export function listNames(names: readonly string[], max = 3): string {
  const all = names.length > max + 1 ? [...names.slice(0, max), `${names.length - max} others`] : names;
  return [...all.slice(0, -2), all.slice(-2).join(" and ")].join(", ");
}

function isInside(node: ts.Node, outer: ts.Node): boolean {
  return ts.findAncestor(node, (it) => it === outer) !== undefined;
}
