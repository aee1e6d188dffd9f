/** A process that writes without end and says on stdout what was acknowledged. Killed by the tests that start it. */
import { writeSync } from "node:fs";
import { rawBlock } from "../src/cid.ts";
import { openSqliteStore } from "../src/store/sqlite.ts";

const [dataDir, writer] = process.argv.slice(2) as [string, string];
const store = await openSqliteStore({ dataDir });

for (let count = 0; ; count++) {
  const block = rawBlock(`${writer} wrote ${count} ${"x".repeat((count * 97) % 5_000)}`);
  await store.change(writer, {
    by: writer,
    put: [block],
    set: [
      { kind: "variable", name: `name-${count}`, cid: block.cid, expected: null },
      { kind: "variable", name: "last", cid: block.cid },
    ],
  });
  writeSync(1, `${count} ${block.cid}\n`);
}
