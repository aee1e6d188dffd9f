import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import { storeContract } from "../support/store.contract.ts";

const folders: string[] = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

storeContract(
  "SQLite on a thread",
  () => {
    folders.push(mkdtempSync(join(tmpdir(), "berth-store-")));
    return openThreadedStore({ dataDir: join(folders.at(-1)!, "data") });
  },
  () => openThreadedStore({ dataDir: join(folders.at(-1)!, "data") }),
);
