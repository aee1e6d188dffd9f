import type { ReadableLinks } from "../audit/audit-entry.ts";

/**
 * The interface through which stores of different kinds are copied: tables and rows, which are the same in all stores.
 */

/** Column types by their names in Postgres. */
type ColumnType = "bigint" | "text" | "bytea" | "boolean";

export interface CopiedTable {
  readonly name: string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** The columns by which rows are sorted. */
  readonly key: readonly string[];
  /** A column of potentially long values. */
  readonly long?: string;
  /** A condition for the rows to copy; all by default. */
  readonly where?: string;
}

export type CopiedRow = Readonly<Record<string, unknown>>;

/** The maximum number of rows in memory at once, and of bytes of their long values; at least one row. */
export const ROWS_AT_ONCE = 1_000;
export const BYTES_AT_ONCE = 8 * 1024 * 1024;

/**
 * The copied tables, in an order in which rows only refer to earlier ones. Omits tables about processes (nodes,
 * messages and leases) and about the database itself.
 */
export const copiedTables: readonly CopiedTable[] = [
  table("content", "id", "id bigint, cid text, bytes bytea, is_leaf boolean, is_package boolean", { long: "bytes" }),
  table("tenant_content", "tenant, content_id", "tenant text, content_id bigint"),
  table("left_content", "tenant, content_id", "tenant text, content_id bigint, since bigint"),
  table("name", "tenant, kind, name", "tenant text, kind text, name text, cid text, changed_at bigint"),
  table(
    "name_change",
    "id",
    "id bigint, tenant text, kind text, name text, cid text, changed_at bigint, changed_by text",
    // Changes of an import that was never published are not copied.
    { where: "tenant NOT LIKE '~%'" },
  ),
  table("derived", "key", "key text, content_id bigint"),
  table("derived_source", "key, cid", "key text, cid text"),
  table("tenant_derived", "tenant, key", "tenant text, key text"),
  table(
    "record",
    "tenant, kind, key",
    "tenant text, kind text, key text, revision bigint, value text, expires_at bigint",
    { long: "value" },
  ),
  table(
    "server_data",
    "id",
    "id bigint, tenant text, kind text, server text, items bigint, bytes bigint, version bigint",
  ),
  table(
    "server_value",
    "id",
    `id bigint, server_id bigint, key text, value bytea, is_json boolean, version bigint, changed_at bigint,
     expires_at bigint`,
    { long: "value" },
  ),
  table(
    "retained_call",
    "id",
    `id bigint, server_id bigint, at bigint, expires_at bigint, tool text, outcome text, micros bigint, principal text,
     body text`,
    { long: "body" },
  ),
  table(
    "tenant",
    "name",
    "name text, created_at bigint, replaced_at bigint, suspended_at bigint, limits text, oauth text",
  ),
  table("tenant_host", "host", "host text, tenant text"),
  table(
    "token",
    "id",
    `id text, tenant text, hash text, name text, grant text, created_at bigint, expires_at bigint, revoked_at bigint`,
  ),
  table(
    "secret",
    "tenant, name",
    "tenant text, name text, key_id text, sealed bytea, changed_at bigint, changed_by text",
  ),
  table(
    "audit",
    "arrival",
    `arrival bigint, place bigint, at bigint, since bigint, tenant text, kind text, records bigint, bytes bigint,
     digest bytea, hash bytea, body text`,
    { long: "body" },
  ),
  table(
    "audit_chain",
    "tenant",
    `tenant text, place bigint, hash bytea, at bigint, anchored bigint, call_bytes bigint, other_bytes bigint`,
  ),
  table("audit_anchored", "place", "place bigint, hash bytea, at bigint"),
];

function table(
  name: string,
  key: string,
  columns: string,
  more: Pick<CopiedTable, "long" | "where"> = {},
): CopiedTable {
  const typed = columns.split(",").map((column) => column.trim().split(" ") as [string, ColumnType]);
  return { name, key: key.split(", "), columns: Object.fromEntries(typed), ...more };
}

/** Tables that have rows in a new store. */
export const PREFILLED_TABLES: ReadonlySet<string> = new Set(["tenant", "audit_anchored"]);

interface CopyEndpoint {
  /** The number of rows to copy from a table. */
  count(table: CopiedTable): Promise<number>;
  readonly audit: ReadableLinks;
}

/** A store at one moment. */
export interface CopySource extends CopyEndpoint {
  /** Sorted by key. */
  rows(table: CopiedTable): AsyncIterable<readonly CopiedRow[]>;
  /** The number of the latest change of a name. */
  readonly latestChange: number;
  /** The number of processes that serve from it. */
  readonly nodes: number;
  /** The ids of the keys with which its secrets are encrypted. */
  readonly keyIds: readonly string[];
  /** True if the store was changed after that moment. */
  isChanged(): Promise<boolean>;
  close(): Promise<void>;
}

/** A store that is not visible until it is complete. */
export interface CopyTarget extends CopyEndpoint {
  write(table: CopiedTable, rows: readonly CopiedRow[]): Promise<void>;
  /** Continues numbering after the copied changes. */
  continueAfter(latestChange: number): Promise<void>;
}

/** Creates a store from what `work` writes if it resolves; otherwise, nothing changes. */
export type StoreCreator = <T>(work: (target: CopyTarget) => Promise<T>) => Promise<T>;

export function selectRows({ name, columns, where }: CopiedTable): string {
  return `SELECT ${columnList({ columns })} FROM ${name}${where === undefined ? "" : ` WHERE ${where}`}`;
}

export function columnList({ columns }: Pick<CopiedTable, "columns">): string {
  return Object.keys(columns)
    .map((column) => `"${column}"`)
    .join(", ");
}

export function orderBy({ key }: Pick<CopiedTable, "key">): string {
  return `ORDER BY ${key.map((column) => `"${column}"`).join(", ")}`;
}

export function countRows({ name, where }: CopiedTable): string {
  return `SELECT count(*) AS rows FROM ${name}${where === undefined ? "" : ` WHERE ${where}`}`;
}

/** A query for a single row that changes with every durable change. */
export const CHANGE_MARKERS = `SELECT (SELECT coalesce(max(arrival), 0) FROM audit) AS arrival,
  (SELECT coalesce(max(id), 0) FROM name_change) AS change, (SELECT count(*) FROM token) AS tokens,
  (SELECT count(*) FROM secret) AS secrets, (SELECT coalesce(sum(version), 0) FROM server_data) AS "values"`;
