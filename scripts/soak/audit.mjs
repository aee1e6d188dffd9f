import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { cli } from "../bench/berth.mjs";

/**
 * Runs `berth audit verify` again and again on the audit log of a data folder, or of the database that `env` names, which
 * Berth may be serving: its previous end must still be there.
 *
 * @param {string} data
 * @param {(text: string) => void} fault
 * @param {Record<string, string>} [env]
 * @returns {() => Promise<string>} what it said
 */
export function auditVerifier(data, fault, env = {}) {
  let head;
  return async () => {
    const where = env.BERTH_DATABASE ? [] : ["--data", data];
    const args = [cli, "audit", "verify", ...where, ...(head ? ["--head", head] : [])];
    try {
      const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } });
      head = stdout.trim();
      return stderr.split(". ")[0];
    } catch (error) {
      fault(`the audit log: ${error.stderr || error.message}`);
      return "The log is broken";
    }
  };
}
