import type { JsonSchema } from "../lib/json.ts";
import type { Findings } from "./compare-findings.ts";

/** Two schemas that are laid side by side. A pair of references that is being compared already is not compared again. */
export interface Walk {
  readonly before: JsonSchema;
  readonly after: JsonSchema;
  readonly under: Set<string>;
  /** Inside of alternatives no validator fills in defaults. */
  readonly hasDefaults: boolean;
  readonly level: number;
  readonly compare: (before: unknown, after: unknown, pointer: string, findings: Findings, walk: Walk) => void;
}
