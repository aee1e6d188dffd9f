import { addProblem, inside, type ConfigPlace } from "./config-place.ts";

/** Decides which changes of an upstream are withheld until they are approved, and what is withheld with them. */
export interface WithholdPolicy {
  /** `any`: all changes; `breaking`: those that are not known to be harmless; `none`: nothing. */
  readonly changes: WithheldChanges;
  /** Only with `breaking`: true if text that models read is withheld as well. */
  readonly texts: boolean;
  /** True if the whole upstream waits, and not only what has changed. */
  readonly refuses: boolean;
}

export type WithheldChanges = "any" | "breaking" | "none";

interface HoldFields {
  readonly schema_validation?: string;
  readonly hold?: string;
  readonly hold_texts?: boolean;
  readonly upstream?: string;
}

/** Reads the fields about changes of an upstream (J6); the strictest policy if they are invalid. */
export function readHold(fields: HoldFields, place: ConfigPlace): WithholdPolicy {
  const { schema_validation: validation = "warn", hold, hold_texts: texts, upstream } = fields;
  if (hold !== undefined && hold !== "none" && validation === "ignore") {
    const message = `"schema_validation": "ignore" withholds nothing, but "hold": "${hold}" does; remove one of them`;
    addProblem(inside(place, "hold"), "two-policies", message);
  }
  if (hold === "none" && validation === "error") {
    const message =
      '"schema_validation": "error" refuses a server with withheld items, but "hold": "none" withholds nothing';
    addProblem(inside(place, "hold"), "two-policies", `${message}; remove one of them`);
  }
  if (texts !== undefined && upstream !== undefined && hold !== "breaking") {
    const message =
      '"hold_texts" only applies to "hold": "breaking"; "any" withholds texts, and "none" withholds nothing';
    addProblem(inside(place, "hold_texts"), "two-policies", message);
  }
  const changes = hold ?? (validation === "ignore" ? "none" : "any");
  return { changes: isHoldChanges(changes) ? changes : "any", texts: texts ?? true, refuses: validation === "error" };
}

function isHoldChanges(value: string): value is WithheldChanges {
  return value === "any" || value === "breaking" || value === "none";
}
