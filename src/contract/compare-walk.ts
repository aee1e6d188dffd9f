import type { JsonSchema } from "../lib/json.ts";
import type { Findings } from "./compare-findings.ts";

/** Two schemas under comparison. A pair of references that is already being compared is not compared again. */
export interface Walk {
  readonly before: JsonSchema;
  readonly after: JsonSchema;
  readonly under: Set<string>;
  /** False inside alternatives, where no validator fills in defaults. */
  readonly hasDefaults: boolean;
  readonly level: number;
  readonly compare: (before: unknown, after: unknown, pointer: string, findings: Findings, walk: Walk) => void;
}
