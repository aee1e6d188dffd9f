/** A thread that reads a whole database, and ends with it. Started by `damage.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import Database from "#better-sqlite3";
import type { DamageOrder } from "./damage.ts";
import { identityOf } from "./store-files.ts";

const { file, identity } = workerData as DamageOrder;

function findProblem(): string | undefined {
  const database = new Database(file, { readonly: true, fileMustExist: true });
  try {
    if (identityOf(file) !== identity) return "another file has taken its place";
    const found = database.pragma("integrity_check(1)", { simple: true }) as string;
    // The name of the database comes first.
    return found === "ok" ? undefined : found.split("\n").at(-1);
  } catch (error) {
    return (error as Error).message;
  } finally {
    database.close();
  }
}

const port = parentPort!;
port.postMessage(findProblem());
