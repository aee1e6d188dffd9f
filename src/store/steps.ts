/**
 * Algorithms that both stores run are generators of SQL statements. SQLite executes the statements synchronously,
 * because a transaction on its thread must never wait; Postgres awaits each.
 */

/** `$1` is the first value. An array is a single value, for use with `Dialect.oneOf`. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly unknown[];
}

export type Steps<T> = Generator<Statement, T, object[]>;

/** One statement. Its columns have the names of the properties of `Row`. */
export function* rows<Row extends object = object>(sql: string, values: readonly unknown[] = []): Steps<Row[]> {
  return (yield { sql, values }) as Row[];
}

/** Runs a transaction, and repeats it after a conflict. */
export type Write = <T>(work: () => Steps<T>) => Promise<T>;
