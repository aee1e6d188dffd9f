/**
 * Algorithms that both stores run are generators of SQL statements. SQLite executes the statements synchronously, as a
 * transaction on its thread must never wait; Postgres awaits each.
 */

/** `$1` is the first value. An array is one value, to be used with `Dialect.oneOf`. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

/** Statements that lead to a result. */
export type Steps<T> = Generator<Statement, T, object[]>;

/** One statement. Its columns are named as the fields of `Row`. */
export function* rows<Row extends object = object>(sql: string, values: readonly unknown[] = []): Steps<Row[]> {
  return (yield { sql, values }) as Row[];
}

/** Runs a transaction, several times where others get in its way. */
export type Write = <T>(work: () => Steps<T>) => Promise<T>;
