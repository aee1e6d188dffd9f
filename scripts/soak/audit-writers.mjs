import { join } from "node:path";
import { recordTogether, saveUnderKills, WRITERS } from "../../dist/test/support/audit-writers.js";
import { startPostgres } from "../../dist/test/support/postgres.js";
import { storeDatabases } from "../../dist/test/support/store-databases.js";

const COUNT = 10_000;

/**
 * 10,000 acknowledged saves of processes that are killed with -9 at any moment, and three processes with 10,000 audit
 * records each, both in SQLite and in Postgres: the test test/audit/several-writers with its full numbers.
 *
 * @param {string} folder
 * @param {(text: string) => void} fault
 * @returns {Promise<string>} what was done
 */
export async function severalAuditWriters(folder, fault) {
  const postgres = await startPostgres();
  try {
    const database = await storeDatabases(postgres);
    const done = [];
    for (const [killed, together] of [
      [join(folder, "killed"), join(folder, "together")],
      [await database(), await database()],
    ]) {
      const { saves, kills } = await saveUnderKills(killed, COUNT);
      await recordTogether(together, COUNT);
      done.push(`${saves} saves under ${kills} kills`);
    }
    const records = `${WRITERS.length} × ${COUNT} records`;
    return `${done.join(" in SQLite, and in Postgres ")}, and ${records} in each: all there, once, in whole chains`;
  } catch (error) {
    fault(`several writers of one audit log: ${error.message}`);
    return "several writers of one audit log have failed";
  } finally {
    await postgres.close();
  }
}
