import type { ReadableLinks } from "../audit/audit-entry.ts";

/** A store of another kind as the copy of one reads and writes it: by tables and rows, which are alike in all stores. */

/** The types by their names in Postgres. */
type ColumnType = "bigint" | "text" | "bytea" | "boolean";

export interface CopiedTable {
  readonly name: string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** By these its rows are put in order. */
  readonly key: readonly string[];
  /** The column whose values may be long. */
  readonly long?: string;
  /** The rows that are copied; all without it. */
  readonly where?: string;
}

export type CopiedRow = Readonly<Record<string, unknown>>;

/** The most rows, and what their long values may have together, that are in memory at once; one row always is. */
export const ROWS_AT_ONCE = 1_000;
export const BYTES_AT_ONCE = 8 * 1024 * 1024;

/**
 * All that a store keeps, in an order in which each row finds those that it refers to. Left out is what tells of processes
 * (nodes, letters and leases) and of the database itself.
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
    // Those of an import that was never published stay behind.
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

/** The tables in which a new store has rows already. */
export const BEGUN_TABLES: ReadonlySet<string> = new Set(["tenant", "audit_anchored"]);

interface CopiedParts {
  /** The rows of a table that are copied. */
  count(table: CopiedTable): Promise<number>;
  readonly audit: ReadableLinks;
}

/** A store at one moment. */
export interface CopySource extends CopiedParts {
  /** In the order of their keys. */
  rows(table: CopiedTable): AsyncIterable<readonly CopiedRow[]>;
  /** The number of the latest change of a name. */
  readonly latestChange: number;
  /** The processes that serve from it. */
  readonly nodes: number;
  /** The ids of the keys that its secrets are sealed with. */
  readonly keyIds: readonly string[];
  /** True if something was changed after that moment. */
  isChanged(): Promise<boolean>;
  close(): Promise<void>;
}

/** A store that nobody sees before it is whole. */
export interface CopyTarget extends CopiedParts {
  write(table: CopiedTable, rows: readonly CopiedRow[]): Promise<void>;
  /** Numbers go on from those that were copied. */
  continueAfter(latestChange: number): Promise<void>;
}

/** Makes a store of what `work` writes, if it resolves; otherwise everything is as it was. */
export type IntoStore = <T>(work: (target: CopyTarget) => Promise<T>) => Promise<T>;

export function selectOf({ name, columns, where }: CopiedTable): string {
  return `SELECT ${columnsOf({ columns })} FROM ${name}${where === undefined ? "" : ` WHERE ${where}`}`;
}

export function columnsOf({ columns }: Pick<CopiedTable, "columns">): string {
  return Object.keys(columns)
    .map((column) => `"${column}"`)
    .join(", ");
}

export function orderOf({ key }: Pick<CopiedTable, "key">): string {
  return `ORDER BY ${key.map((column) => `"${column}"`).join(", ")}`;
}

export function countOf({ name, where }: CopiedTable): string {
  return `SELECT count(*) AS rows FROM ${name}${where === undefined ? "" : ` WHERE ${where}`}`;
}

/** Asks for one row, which is another one as soon as anything was changed that is kept for long. */
export const MARKS = `SELECT (SELECT coalesce(max(arrival), 0) FROM audit) AS arrival,
  (SELECT coalesce(max(id), 0) FROM name_change) AS change, (SELECT count(*) FROM token) AS tokens,
  (SELECT count(*) FROM secret) AS secrets, (SELECT coalesce(sum(version), 0) FROM server_data) AS "values"`;
