/**
 * A process that writes without end and prints acknowledged writes, until the test that started it kills it: `WHERE
 * WRITER [LOG_BYTES [WRITES]]`. After `WRITES` writes it ends without closing anything.
 */
import { writeSync } from "node:fs";
import { rawBlock } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { openWhere } from "./open-where.ts";

const [where, writer, logBytes, writes = Infinity] = process.argv.slice(2) as [string, string, string?, string?];
const store = await (logBytes === undefined
  ? openWhere(where)
  : openSqliteStore({ dataDir: where, logBytes: Number(logBytes) }));

for (let count = 0; count < Number(writes); count++) {
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
