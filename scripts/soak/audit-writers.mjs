import { join } from "node:path";
import { recordTogether, saveUnderKills } from "../../dist/test/support/audit-writers.js";

const COUNT = 10_000;

/**
 * 10,000 acknowledged saves of processes that are killed with -9 at any moment, and two processes with 10,000 audit
 * records each: the test test/audit/several-writers with its full numbers.
 *
 * @param {string} folder
 * @param {(text: string) => void} fault
 * @returns {Promise<string>} what was done
 */
export async function severalAuditWriters(folder, fault) {
  try {
    const { saves, kills } = await saveUnderKills(join(folder, "killed"), COUNT);
    await recordTogether(join(folder, "together"), COUNT);
    return `${saves} saves under ${kills} kills, and 2 × ${COUNT} records: all there, once, in whole chains`;
  } catch (error) {
    fault(`several writers of one audit log: ${error.message}`);
    return "several writers of one audit log have failed";
  }
}
