import type { NamedChange } from "../../store/tenant-copies.ts";
import { serverNameProblem, variableNameProblem } from "../../entry/fields.ts";
import { kindsOfNames } from "./format.ts";

/** The problem with a name of that kind; undefined if there is none. */
export function nameProblem(kind: NamedChange["kind"], name: string): string | undefined {
  if (kind === "variable") return variableNameProblem(name);
  if (kind !== "image") return serverNameProblem(name);
  return name === "applied" ? undefined : `there is no image ${JSON.stringify(name.slice(0, 100))}`;
}

export function isKind(kind: unknown): kind is NamedChange["kind"] {
  return (kindsOfNames as readonly unknown[]).includes(kind);
}
