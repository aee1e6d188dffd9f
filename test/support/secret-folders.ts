import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSecrets, type Secrets } from "../../src/features/secrets/secrets.ts";
import { openKeyRing, type KeySource } from "../../src/secrets/key-ring.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";

interface Opened {
  readonly secrets: Secrets;
  readonly store: Store & SecretStore;
  readonly folder: string;
}

/** Data folders that have secrets in them. Their tests close them all at the end. */
export function secretFolders() {
  const parent = mkdtempSync(join(tmpdir(), "berth-secrets-"));
  const closers: (() => Promise<void>)[] = [];
  let folders = 0;
  const newFolder = (): string => join(parent, `data-${++folders}`);
  return {
    parent,
    newFolder,
    /** Opens a data folder as a separate process would. */
    open: async (folder = newFolder(), source: KeySource = {}): Promise<Opened> => {
      const store = await openSqliteStore({ dataDir: folder });
      closers.push(() => store.close());
      return { store, folder, secrets: openSecrets(store, openKeyRing(folder, source)) };
    },
    close: async (): Promise<void> => {
      for (const close of closers) await close();
      rmSync(parent, { recursive: true, force: true });
    },
  };
}

/** Every byte in the folder. */
export function bytesIn(folder: string): Buffer {
  return Buffer.concat(readdirSync(folder).map((file) => readFileSync(join(folder, file))));
}
