import { setTimeout as pause } from "node:timers/promises";
import type Database from "#better-sqlite3";
import { ALIAS } from "../aliases.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The most contents, and their bytes, in one transaction, during which others wait. */
const AT_ONCE = 100;
const BYTES_AT_ONCE = 512 * 1024;

/** Nobody has any claim on the content `@id`, nor may still take it back. */
export const UNHELD = `NOT EXISTS (SELECT 1 FROM tenant_content WHERE content_id = @id)
  AND NOT EXISTS (SELECT 1 FROM left_content WHERE content_id = @id)
  AND NOT EXISTS (SELECT 1 FROM derived WHERE content_id = @id)`;

/**
 * Claims on content and derived results that a tenant has lost, and the state and retained calls of its servers. They are removed, with
 * everything that nobody else holds, in steps small enough for others to write in between.
 */
export function leftClaims(database: Database.Database, log: WriteAheadLog) {
  const some = database.prepare<[string], { id: number; bytes: number }>(
    `SELECT id, LENGTH(bytes) AS bytes FROM tenant_content JOIN content ON id = content_id WHERE tenant = ? LIMIT ${AT_ONCE}`,
  );
  const release = database.prepare<[string, number]>("DELETE FROM tenant_content WHERE tenant = ? AND content_id = ?");
  const removeUnheld = database.prepare<[{ id: number }]>(`DELETE FROM content WHERE id = @id AND ${UNHELD}`);
  const moves = [
    "UPDATE tenant_content SET tenant = @to WHERE tenant = @from",
    "INSERT OR IGNORE INTO tenant_content (tenant, content_id) SELECT @to, content_id FROM left_content WHERE tenant = @from",
    "DELETE FROM left_content WHERE tenant = @from",
  ].map((sql) => database.prepare<[{ from: string; to?: string }]>(sql));
  const derived = leftResults(database);
  const state = leftRows(database, "state", "state_server", "length(r.value)");
  const calls = leftRows(database, "retained_call", "retained_call_server", "length(r.body)");
  const aliases = database
    .prepare<[], string>(
      `SELECT DISTINCT tenant FROM tenant_content WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'
       UNION SELECT DISTINCT tenant FROM tenant_derived WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'
       UNION SELECT DISTINCT tenant FROM state_server WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'
       UNION SELECT DISTINCT tenant FROM retained_call_server WHERE tenant > '${ALIAS}' AND tenant < '${ALIAS}~'`,
    )
    .pluck();

  const removeSome = database.transaction((alias: string) => {
    const found = some.all(alias);
    const ids = firstOf(found);
    for (const id of ids) release.run(alias, id);
    const results = derived.release(alias);
    const removed = ids.map((id) => removeUnheld.run({ id }).changes).filter(Boolean).length;
    for (const id of results.contents) removeUnheld.run({ id });
    const isOver = ids.length === found.length && found.length < AT_ONCE && results.isOver;
    // One kind after the other, so that a step stays short.
    return { isOver: isOver && state.release(alias) && calls.release(alias), removed };
  });

  return {
    /** Gives all claims on content under one name to another that has none; part of the caller's transaction. */
    move(from: string, to: string): void {
      for (const move of moves) move.run({ from, to });
    },

    /** As `move`, for claims on derived results. */
    moveDerived: (from: string, to: string): void => derived.move(from, to),

    /** As `move`, for the state of servers. */
    moveState: (from: string, to: string): void => state.move(from, to),

    /** As `move`, for the retained calls of servers. */
    moveCalls: (from: string, to: string): void => calls.move(from, to),

    /** Returns the number of contents that are gone. */
    async remove(alias: string): Promise<number> {
      let total = 0;
      for (;;) {
        const began = performance.now();
        const { isOver, removed } = await log.write(() => removeSome.immediate(alias));
        total += removed;
        if (isOver) return total;
        // Waiters go first, for as long as they waited for this.
        await pause(performance.now() - began);
      }
    },

    /** The ids of `aliasOf` under which there are claims. */
    ids: (): string[] => [...new Set(aliases.all().map((alias) => alias.slice(ALIAS.length).split("-")[0]!))],
  };
}

/** The contents, at least one, that fit into one short step. */
function firstOf(found: readonly { id: number; bytes: number }[]): number[] {
  let total = 0;
  const isWithin = ({ bytes }: { bytes: number }): boolean => (total += bytes) - bytes < BYTES_AT_ONCE;
  return found.filter(isWithin).map(({ id }) => id);
}

function leftResults(database: Database.Database) {
  const move = database.prepare<[string, string]>("UPDATE tenant_derived SET tenant = ? WHERE tenant = ?");
  const some = database
    .prepare<[string], string>(`SELECT key FROM tenant_derived WHERE tenant = ? LIMIT ${AT_ONCE}`)
    .pluck();
  const release = database.prepare<[string, string]>("DELETE FROM tenant_derived WHERE tenant = ? AND key = ?");
  const removeUnheld = database
    .prepare<[{ key: string }], number>(
      `DELETE FROM derived WHERE key = @key AND NOT EXISTS (SELECT 1 FROM tenant_derived WHERE key = @key)
       RETURNING content_id`,
    )
    .pluck();
  return {
    move: (from: string, to: string): void => void move.run(to, from),
    /** Returns the contents that some of the results were, and if there are no more. */
    release(alias: string): { contents: number[]; isOver: boolean } {
      const keys = some.all(alias);
      for (const key of keys) release.run(alias, key);
      return { contents: keys.flatMap((key) => removeUnheld.get({ key }) ?? []), isOver: keys.length < AT_ONCE };
    },
  };
}

/** Rows that hang on the rows of servers. */
function leftRows(database: Database.Database, table: string, servers: string, bytes: string) {
  const move = database.prepare<[string, string]>(`UPDATE ${servers} SET tenant = ? WHERE tenant = ?`);
  const some = database.prepare<[string], { id: number; bytes: number }>(
    `SELECT r.id, ${bytes} AS bytes FROM ${servers} AS o JOIN ${table} AS r ON r.server_id = o.id
     WHERE o.tenant = ? LIMIT ${AT_ONCE}`,
  );
  const release = database.prepare<[number]>(`DELETE FROM ${table} WHERE id = ?`);
  const removeServers = database.prepare<[string]>(`DELETE FROM ${servers} WHERE tenant = ?`);
  return {
    move: (from: string, to: string): void => void move.run(to, from),
    /** True when there is no more of it. */
    release(alias: string): boolean {
      const found = some.all(alias);
      for (const id of firstOf(found)) release.run(id);
      if (found.length === 0) removeServers.run(alias);
      return found.length === 0;
    },
  };
}
