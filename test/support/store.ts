import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Log } from "../../src/lib/log.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { SecretStore, Store, ValueQuota } from "../../src/store/store.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** Returns a function that creates empty folders, which are removed after the tests of the file. */
export function testFolders(name: string): () => string {
  const root = temporaryFolder();
  return () => mkdtempSync(join(root, `${name}-`));
}

/** A change that sets a variable. */
export function setVariable(text: string, name = "motto") {
  const block = rawBlock(text);
  return { by: "test", put: [block], set: [{ kind: "variable", name, cid: block.cid }] } as const;
}

/** Opens the SQLite store of a folder for `work`. */
export async function withStore<T>(dataDir: string, work: (store: Store & SecretStore) => Promise<T>): Promise<T> {
  const store = await openSqliteStore({ dataDir });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** The value of a variable in the store of a folder. */
export function readVariable(dataDir: string, name = "motto"): Promise<string | undefined> {
  return withStore(dataDir, async (store) => {
    const record = await store.name("default", "variable", name);
    const bytes = record && (await store.content("default", record.cid));
    return bytes && new TextDecoder().decode(bytes);
  });
}

/** Changes a database as another program could. */
export function execute(file: string, sql: string): void {
  const database = new Database(file);
  database.exec(sql);
  database.close();
}

/** A log that collects the messages of its errors and notices. */
export function collectMessages(): { readonly messages: string[]; readonly log: Log } {
  const messages: string[] = [];
  const note = (...parts: unknown[]): void => void messages.push(String(parts.at(-1)));
  return { messages, log: { error: note, info: note } as unknown as Log };
}

/** State limits that no test reaches. */
export const AMPLE: ValueQuota = {
  keysPerServer: 10_000,
  bytesPerServer: 1e9,
  bytesPerTenant: 1e9,
  code: "state_full",
  settings: { server: "BERTH_STATE_BYTES_PER_SERVER", tenant: "BERTH_STATE_BYTES_PER_TENANT" },
};

const writerFile = fileURLToPath(new URL("./store-writer.js", import.meta.url));

/** Runs a process that writes to a store, kills it once it has written some, and returns the CIDs that it wrote. */
export async function killWriter(
  where: string,
  { writer = "default", logBytes, writes }: { writer?: string; logBytes?: number; writes: number },
): Promise<string[]> {
  const args = [writerFile, where, writer, ...(logBytes === undefined ? [] : [String(logBytes)])];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  const cids: string[] = [];
  for await (const line of createInterface({ input: child.stdout }))
    if (cids.push(line.split(" ")[1]!) === writes) child.kill("SIGKILL");
  assert.deepEqual(await closed, [null, "SIGKILL"]);
  return cids;
}
