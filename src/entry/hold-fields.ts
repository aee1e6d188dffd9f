import { complain, inside, type ConfigPlace } from "./config-place.ts";

/** Says which changes of an upstream wait for a person, and what waits with them. */
export interface HoldPolicy {
  /** `any`: whatever differs; `breaking`: whatever is not known to be harmless; `none`: nothing. */
  readonly changes: HoldChanges;
  /** Only with `breaking`: true when text that a model reads is held back, too. */
  readonly texts: boolean;
  /** True when the whole upstream waits, and not only what has changed. */
  readonly refuses: boolean;
}

export type HoldChanges = "any" | "breaking" | "none";

interface HoldFields {
  readonly schema_validation?: string;
  readonly hold?: string;
  readonly hold_texts?: boolean;
  readonly upstream?: string;
}

/** Reads the fields of an entry that are about changes of its upstream (J6); the strictest policy where they are wrong. */
export function readHold(fields: HoldFields, place: ConfigPlace): HoldPolicy {
  const { schema_validation: validation = "warn", hold, hold_texts: texts, upstream } = fields;
  if (hold !== undefined && hold !== "none" && validation === "ignore") {
    const message = `"schema_validation": "ignore" holds nothing back, and "hold": "${hold}" does; take one of them out`;
    complain(inside(place, "hold"), "two-policies", message);
  }
  if (hold === "none" && validation === "error") {
    const message = '"schema_validation": "error" refuses what is held back, and "hold": "none" holds nothing back';
    complain(inside(place, "hold"), "two-policies", `${message}; take one of them out`);
  }
  if (texts !== undefined && upstream !== undefined && hold !== "breaking") {
    const message = '"hold_texts" goes with "hold": "breaking"; "any" holds texts back, and "none" holds nothing back';
    complain(inside(place, "hold_texts"), "two-policies", message);
  }
  const changes = hold ?? (validation === "ignore" ? "none" : "any");
  return { changes: isHoldChanges(changes) ? changes : "any", texts: texts ?? true, refuses: validation === "error" };
}

function isHoldChanges(value: string): value is HoldChanges {
  return value === "any" || value === "breaking" || value === "none";
}
