/**
 * How large the schema of one tool may become. Types can describe more than any client would read, and a few lines of
 * hostile types more than fits into memory; the walk then stops with a problem.
 */
export const budgets = {
  schemaNodes: 5_000,
  schemaLevels: 60,
  unionMembers: 1_000,
  /** Dates and URLs in recursive types are at infinitely many paths; only the shallowest are listed. */
  recursiveRevivals: 100,
  recursiveRevivalSteps: 32,
} as const;

export class BudgetExceeded extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Counts the parts of one tool's schemas; throws `BudgetExceeded` above a limit. */
export class Budget {
  #nodes = 0;

  spendNode(level: number): void {
    this.#nodes += 1;
    if (this.#nodes > budgets.schemaNodes) {
      throw new BudgetExceeded(
        "type-too-large",
        `the type has more than ${budgets.schemaNodes} parts when written out; split it, or use a simpler type`,
      );
    }
    if (level > budgets.schemaLevels) {
      throw new BudgetExceeded(
        "type-too-deep",
        `the type nests more than ${budgets.schemaLevels} levels deep, or endlessly; use a flatter type`,
      );
    }
  }

  checkUnion(members: number): void {
    if (members <= budgets.unionMembers) return;
    throw new BudgetExceeded(
      "union-too-large",
      `the type is a union of ${members} members and at most ${budgets.unionMembers} are allowed; use a wider type such as string`,
    );
  }
}
