import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import { storeContract } from "../support/store.contract.ts";
import { testFolders } from "../support/store.ts";

const dataFolder = testFolders("thread");
let last: string;
storeContract(
  "SQLite on a thread",
  () => openThreadedStore({ dataDir: (last = dataFolder()) }),
  () => openThreadedStore({ dataDir: last }),
);
