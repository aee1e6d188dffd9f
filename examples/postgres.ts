/**
 * Reads a Postgres database, and changes nothing: each query is one statement that runs in a transaction of its own,
 * which begins with `BEGIN READ ONLY` and is always rolled back. That keeps mistakes out. Whoever should not read a
 * table, or call a function that works beyond the transaction, needs a role that may not: give DATABASE_URL one that may
 * read only what everybody may see. Its entry names
 * the database's host and port as its `network`.
 *
 * @secret DATABASE_URL its address, such as postgres://reader:password@db.internal:5432/shop
 */

import type { Socket } from "node:net";
import type { ToolContext } from "berth";
import pg from "pg";
import Cursor from "pg-cursor";

/** The most rows of a result. */
const ROWS_MAX = 1_000;
/** The longest text in a cell; of longer ones there is the beginning. */
const CELL_LENGTH_MAX = 10_000;
/** The most that the database may send for one query. */
const ANSWER_BYTES_MAX = 4_000_000;
/** How long a connection may take, and an answer longer than Postgres was given: then it hangs. */
const SILENCE_MS = 5_000;

/**
 * Set by the entry: `"env": { "DATABASE_URL": "${DATABASE_URL}" }`. DATABASE_CA is the certificate (PEM) of who vouches
 * for the server's, if that is nobody whom Node trusts; with it, connections are always encrypted.
 */
const { DATABASE_URL: url, DATABASE_CA: ca } = process.env;
/** How long Postgres may work for one statement. */
const STATEMENT_MS = Number(process.env["STATEMENT_MS"] ?? 10_000);

/** It outlives calls. Berth starts another process, and so another pool, when the secret or the entry changes. */
const pool = new pg.Pool({
  ...(url && { connectionString: ca ? withoutSslOf(url) : url }),
  ...(ca && { ssl: { ca } }),
  max: 4,
  connectionTimeoutMillis: SILENCE_MS,
  application_name: "berth",
});
/** What each connection has sent since its query began. */
const received = new WeakMap<pg.ClientBase, number>();
pool.on("connect", (client) => {
  const stream = streamOf(client);
  stream.on("data", (chunk: Uint8Array) => {
    const bytes = (received.get(client) ?? 0) + chunk.length;
    received.set(client, bytes);
    if (bytes > ANSWER_BYTES_MAX) stream.destroy(new TooMuch());
  });
  // Queries under way fail with the same error; without this, it would end the process.
  client.on("error", () => undefined);
});
// As above, for connections that nobody uses: they are replaced.
pool.on("error", () => undefined);

type Value = string | number | boolean | null;

interface Column {
  name: string;
  /** As Postgres calls it, such as `timestamp with time zone`. */
  type: string;
}

/** What a query gives. */
interface Result {
  columns: Column[];
  /** Numbers that JavaScript can hold exactly, booleans, and null; everything else as the text that Postgres writes. */
  rows: Value[][];
  /** There are more rows than the limit. */
  hasMore: boolean;
}

/** A table or a view. */
interface Table {
  schema: string;
  name: string;
  kind: "table" | "view" | "other";
  comment?: string;
  /** Its resource, which tells its columns. */
  uri: string;
}

interface TableColumn extends Column {
  nullable: boolean;
  default?: string;
  comment?: string;
  isPrimaryKey: boolean;
  /** The column that it refers to, as `schema.table(column)`. */
  references?: string;
}

/**
 * Runs one statement that reads: SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW.
 *
 * @param sql - With `$1`, `$2`, … where the values belong.
 * @param values - What `$1`, `$2`, … stand for.
 * @param limit - The most rows to give.
 * @readOnly
 * @openWorld
 */
export async function query(
  sql: string,
  values: Value[] = [],
  limit: Limit = 100,
  context: ToolContext,
): Promise<Result> {
  const word = firstWord(sql);
  if (!/^(?:select|with|values|table|explain|show)$/i.test(word))
    throw new Error(
      `Only statements that read are run: SELECT, WITH, VALUES, TABLE, EXPLAIN, SHOW. This begins with "${word}"`,
    );
  return reading((client) => run(client, sql, values, limit), sql, context);
}

/** @minimum 1 @maximum 1000 */
type Limit = number;

/**
 * The tables and views that may be read.
 *
 * @readOnly
 * @openWorld
 */
export async function tables(context: ToolContext): Promise<Table[]> {
  const rows = await rowsOf(TABLES, [], context);
  return rows.map(([schema, name, kind, comment]) => ({
    schema: String(schema),
    name: String(name),
    kind: kind as Table["kind"],
    ...(comment !== null && { comment: String(comment) }),
    uri: `postgres://tables/${encodeURIComponent(String(schema))}/${encodeURIComponent(String(name))}`,
  }));
}

/**
 * The columns of a table or a view.
 *
 * @readOnly
 * @openWorld
 */
export async function columns(table: string, schema = "public", context: ToolContext): Promise<TableColumn[]> {
  const found = await columnsOf(schema, table, context);
  if (found.length === 0)
    throw new Error(`There is no table "${schema}"."${table}" that may be read: tables() lists those that may`);
  return found;
}

/**
 * All tables and views, with the addresses of what tells their columns.
 *
 * @resource postgres://tables application/json
 */
export async function tableList(context: ToolContext): Promise<Table[]> {
  return tables(context);
}

/**
 * One table or view, with its columns.
 *
 * @resource postgres://tables/{schema}/{table} application/json
 */
export async function table(schema: string, table: string, context: ToolContext): Promise<TableColumn[] | undefined> {
  const found = await columnsOf(schema, table, context);
  return found.length === 0 ? undefined : found;
}

/** @completes table.schema */
export async function schemas(value: string, _others: unknown, context: ToolContext): Promise<string[]> {
  const found = new Set((await tables(context)).map(({ schema }) => schema));
  return [...found].filter((schema) => schema.startsWith(value));
}

/** @completes table.table */
export async function names(value: string, others: { schema?: string }, context: ToolContext): Promise<string[]> {
  const found = (await tables(context)).filter(({ schema }) => schema === (others.schema ?? schema));
  return found.map(({ name }) => name).filter((name) => name.startsWith(value));
}

const TABLES = `
  select n.nspname, c.relname,
    case when c.relkind in ('r', 'p') then 'table' when c.relkind in ('v', 'm') then 'view' else 'other' end,
    obj_description(c.oid, 'pg_class')
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^(pg_|information_schema$)'
    and has_schema_privilege(n.oid, 'USAGE') and has_any_column_privilege(c.oid, 'SELECT')
  order by 1, 2`;

const COLUMNS = `
  select a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
    col_description(c.oid, a.attnum),
    exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)),
    (select f.confrelid::regclass || '(' || r.attname || ')'
     from pg_constraint f join pg_attribute r
       on r.attrelid = f.confrelid and r.attnum = f.confkey[array_position(f.conkey, a.attnum)]
     where f.conrelid = c.oid and f.contype = 'f' and a.attnum = any(f.conkey) limit 1)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where n.nspname = $1 and c.relname = $2 and has_schema_privilege(n.oid, 'USAGE')
    and has_column_privilege(c.oid, a.attnum, 'SELECT')
  order by a.attnum`;

async function columnsOf(schema: string, table: string, context: ToolContext): Promise<TableColumn[]> {
  const rows = await rowsOf(COLUMNS, [schema, table], context);
  return rows.map(([name, type, nullable, initial, comment, isPrimaryKey, references]) => ({
    name: String(name),
    type: String(type),
    nullable: nullable === true,
    ...(initial !== null && { default: String(initial) }),
    ...(comment !== null && { comment: String(comment) }),
    isPrimaryKey: isPrimaryKey === true,
    ...(references !== null && { references: String(references) }),
  }));
}

async function rowsOf(sql: string, values: Value[], context: ToolContext): Promise<Value[][]> {
  return (await reading((client) => run(client, sql, values, ROWS_MAX), sql, context)).rows;
}

/** Reads in a transaction that cannot write, and leaves nothing of it on the connection. */
async function reading<T>(read: (client: pg.PoolClient) => Promise<T>, sql: string, context: ToolContext): Promise<T> {
  if (!url)
    throw new Error('DATABASE_URL is not set: add "env": { "DATABASE_URL": "${DATABASE_URL}" } to the entry in mcps');
  const client = await pool.connect().catch((error: unknown) => {
    throw explained(error, sql);
  });
  let ended: Error | undefined;
  const end = (error: Error): void => {
    ended ??= error;
    // Whatever waits for an answer on this connection fails.
    streamOf(client).destroy(error);
  };
  const cancelled = (): void => end(new Error("the call was cancelled"));
  const silence = setTimeout(() => {
    end(new Error(`it has not answered for ${(STATEMENT_MS + SILENCE_MS) / 1000} seconds`));
  }, STATEMENT_MS + SILENCE_MS);
  context.signal.addEventListener("abort", cancelled);
  received.set(client, 0);
  try {
    await client.query("BEGIN READ ONLY");
    await client.query(`SET LOCAL statement_timeout = ${STATEMENT_MS}`);
    const result = await read(client);
    await reset(client);
    return result;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) ended ??= error as Error;
    else await reset(client).catch((failure: Error) => (ended ??= failure));
    throw explained(ended ?? error, sql);
  } finally {
    clearTimeout(silence);
    context.signal.removeEventListener("abort", cancelled);
    client.release(ended);
  }
}

/** Its types keep it private. */
function streamOf(client: pg.ClientBase): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** Also ends what outlives a transaction: locks, settings, prepared statements. */
async function reset(client: pg.PoolClient): Promise<void> {
  await client.query("ROLLBACK");
  await client.query("DISCARD ALL");
}

/** The extended protocol takes one statement alone. Of its rows, Postgres makes one more than the limit. */
async function run(client: pg.PoolClient, sql: string, values: Value[], limit: number): Promise<Result> {
  const cursor = client.query(new Cursor<Value[]>(sql, values, { rowMode: "array", types }));
  const { rows, fields } = await new Promise<{ rows: Value[][]; fields: pg.FieldDef[] }>((resolve, reject) => {
    cursor.read(limit + 1, (error, rows, result) => {
      // Without any error it is null, whatever its type says.
      if (error as Error | null) reject(error);
      else resolve({ rows, fields: result.fields });
    });
  });
  await cursor.close();
  const names = await typeNames(client, fields);
  return {
    columns: fields.map(({ name, dataTypeID }) => ({ name, type: names.get(dataTypeID) ?? String(dataTypeID) })),
    rows: rows.slice(0, limit),
    hasMore: rows.length > limit,
  };
}

/** They differ from database to database, and a pool has one. */
const knownTypes = new Map<number, string>();

async function typeNames(client: pg.PoolClient, fields: readonly pg.FieldDef[]): Promise<ReadonlyMap<number, string>> {
  const unknown = fields.map(({ dataTypeID }) => dataTypeID).filter((id) => !knownTypes.has(id));
  if (unknown.length > 0) {
    const sql = "select oid::int8::text id, format_type(oid, null) as name from unnest($1::oid[]) oid";
    const { rows } = await client.query<{ id: string; name: string }>(sql, [unknown]);
    for (const { id, name } of rows) knownTypes.set(Number(id), name);
  }
  return knownTypes;
}

const { INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC, BOOL } = pg.types.builtins;
const numbers: readonly number[] = [INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC];

/** How cells are read: dates, for one, would lose their exactness as those of JavaScript. */
const types = {
  getTypeParser: (id: number) => (text: string) => {
    if (id === BOOL) return text === "t";
    if (numbers.includes(id)) return numberOr(text);
    return text.length > CELL_LENGTH_MAX ? `${text.slice(0, CELL_LENGTH_MAX)}… (of ${text.length} characters)` : text;
  },
} as pg.CustomTypesConfig;

function numberOr(text: string): number | string {
  const number = Number(text);
  return String(number) === text ? number : text;
}

/** As Postgres reads it: comments in the form of C nest, and others end at either kind of line break. */
function firstWord(sql: string): string {
  let at = 0;
  for (let depth = 0; at < sql.length;) {
    const two = sql.slice(at, at + 2);
    if (two === "/*" || (depth > 0 && two === "*/")) {
      depth += two === "/*" ? 1 : -1;
      at += 2;
    } else if (depth > 0 || /[\s(]/.test(two[0]!)) at += 1;
    else if (two === "--") at += /^[^\r\n]*/.exec(sql.slice(at))![0].length;
    else break;
  }
  return /^\w*/.exec(sql.slice(at))![0];
}

class TooMuch extends Error {
  constructor() {
    super(`its answer is longer than ${ANSWER_BYTES_MAX / 1e6} MB: ask for fewer rows, or shorter ones`);
  }
}

/** What Postgres says, as its own client shows it. */
function explained(error: unknown, sql: string): Error {
  if (!(error instanceof pg.DatabaseError))
    return new Error(`The database could not be asked: ${(error as Error).message}`, { cause: error });
  const { message, code, detail, hint, position, where } = error;
  const says = [`Postgres: ${message} (${code})`];
  if (position !== undefined) says.push(...pointer(sql, Number(position)));
  if (detail) says.push(`Detail: ${detail}`);
  if (hint) says.push(`Hint: ${hint}`);
  if (where) says.push(`Where: ${where}`);
  if (code === "57014") says.push(`Statements may take ${STATEMENT_MS / 1000} seconds.`);
  return new Error(says.join("\n"), { cause: error });
}

/** The line of the statement, with a mark below its `position`, which counts from 1. */
function pointer(sql: string, position: number): string[] {
  const characters = [...sql];
  const before = characters
    .slice(0, position - 1)
    .join("")
    .split("\n");
  const [line, column] = [before.length, [...before.at(-1)!].length];
  const shown = [...sql.split("\n")[line - 1]!];
  const from = Math.max(0, column - 60);
  const label = `Line ${line}: `;
  return [label + shown.slice(from, from + 120).join(""), `${" ".repeat(label.length + column - from)}^`];
}

function withoutSslOf(url: string): string {
  const found = new URL(url);
  for (const name of [...found.searchParams.keys()]) if (name.startsWith("ssl")) found.searchParams.delete(name);
  return found.href;
}
