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
  /** What was approved of tools that are something else now; neither listed nor called until a person approves them. */
  readonly held: readonly ToolContract[];
  readonly changes: readonly ContractChange[];
  /** The whole server waits for a person. */
  readonly refused: boolean;
}

/**
 * Compares what a server offers with what was approved. What is new is taken over. A tool that is another one under
 * its old name is held back, whatever it is that changed: a description reaches the model as surely as a schema does,
 * and so do the server's own instructions, which stay as they were. What is gone stays approved as it was, so that
 * nothing comes back as another thing under its name.
 */
export function judge(approved: Contract, observed: Contract, validation: SchemaValidation): Judgement {
  if (validation === "ignore") {
    return { served: observed, approved: observed, held: [], changes: [], refused: false };
  }
  const before = new Map(approved.tools.map((tool) => [tool.name, tool]));
  const held = observed.tools.flatMap((tool) => {
    const known = before.get(tool.name);
    return known && toolCid(tool) !== toolCid(known) ? [known] : [];
  });
  const changes = driftOf(approved, observed);
  const heldNames = new Set(held.map(({ name }) => name));
  const names = new Set(observed.tools.map(({ name }) => name));
  const { description: _, ...rest } = observed;
  const told = approved.description === undefined ? rest : { ...rest, description: approved.description };
  return {
    served: { ...told, tools: observed.tools.filter(({ name }) => !heldNames.has(name)) },
    approved: {
      ...told,
      tools: [
        ...observed.tools.map((tool) => before.get(tool.name) ?? tool),
        ...approved.tools.filter(({ name }) => !names.has(name)),
      ],
    },
    held,
    changes,
    refused: validation === "error" && changes.some(({ effect }) => effect !== "compatible"),
  };
}

/** What is different, with a word on each tool that is another one in what no caller's code depends on. */
export function driftOf(approved: Contract, observed: Contract): ContractChange[] {
  const changes = compareContracts(approved, observed);
  const before = new Map(approved.tools.map((tool) => [tool.name, tool]));
  const silent = observed.tools.filter(({ name, ...tool }) => {
    const known = before.get(name);
    const isOther = known !== undefined && toolCid({ name, ...tool }) !== toolCid(known);
    return isOther && !changes.some((change) => change.subject === "tool" && change.name === name);
  });
  return [
    ...changes,
    ...silent.map(({ name }): ContractChange => {
      const message = `The tool "${name}" is written in another way, and means the same to its callers.`;
      return { subject: "tool", name, effect: "review", message };
    }),
  ];
}

export function toolCid(tool: ToolContract): Cid {
  return jsonBlock(tool).cid;
}
