/** The thread of a single check of a whole database. Started by `damage.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import type { DamageTask } from "./damage.ts";
import { fileIdentity } from "./store-files.ts";

const { file, identity } = workerData as DamageTask;

function findProblem(): string | undefined {
  const database = new Database(file, { readonly: true, fileMustExist: true });
  try {
    if (fileIdentity(file) !== identity) return "it was replaced by another file";
    const result = database.pragma("integrity_check(1)", { simple: true }) as string;
    // The first line is the name of the database.
    return result === "ok" ? undefined : result.split("\n").at(-1);
  } catch (error) {
    return (error as Error).message;
  } finally {
    database.close();
  }
}

const port = parentPort!;
port.postMessage(findProblem());
