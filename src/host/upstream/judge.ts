import { jsonBlock, type Cid } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import { compareContracts } from "../../contract/compare.ts";
import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { SchemaValidation } from "../config/entry.ts";

export interface Judgement {
  /** What clients see. */
  readonly served: Contract;
  /** What counts as approved from here on: what was, and what may be taken over without a person. */
  readonly approved: Contract;
  /** Tools that are not what was approved; they are neither listed nor called until a person approves them. */
  readonly held: readonly string[];
  readonly changes: readonly ContractChange[];
  /** The whole server waits for a person. */
  readonly refused: boolean;
}

/**
 * Compares what a server offers with what was approved. What is new is taken over, and so is what no longer exists;
 * a tool that is another one under its old name is held back, whatever it is that changed: a description reaches the
 * model as surely as a schema does.
 */
export function judge(approved: Contract, observed: Contract, validation: SchemaValidation): Judgement {
  const changes = validation === "ignore" ? [] : compareContracts(approved, observed);
  const before = new Map(approved.tools.map((tool) => [tool.name, tool]));
  const isHeld = ({ name, ...tool }: ToolContract): boolean => {
    const known = before.get(name);
    return validation !== "ignore" && known !== undefined && toolCid({ name, ...tool }) !== toolCid(known);
  };
  const held = observed.tools.filter(isHeld).map(({ name }) => name);
  const breaks = changes.some(({ effect }) => effect === "breaking");
  return {
    served: { ...observed, tools: observed.tools.filter((tool) => !held.includes(tool.name)) },
    approved: {
      ...observed,
      tools: observed.tools.map((tool) => (held.includes(tool.name) ? before.get(tool.name)! : tool)),
    },
    held,
    changes,
    refused: validation === "error" && (held.length > 0 || breaks),
  };
}

export function toolCid(tool: ToolContract): Cid {
  return jsonBlock(tool).cid;
}
