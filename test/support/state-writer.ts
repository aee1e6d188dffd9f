/**
 * A process that changes state without end and prints acknowledged changes, until the test that started it kills it:
 * `FOLDER WRITER`. A line is `set <key> <value> <version>`, `delete <key>`, or `count <value>` of a key that all share.
 */
import { writeSync } from "node:fs";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";

const [dataDir, writer] = process.argv.slice(2) as [string, string];
const { state } = await openSqliteStore({ dataDir });
const room = { keysPerServer: 1_000_000, bytesPerServer: 1e9, bytesPerTenant: 1e9 };
const set = (key: string, value: string, expected?: number): Promise<number | undefined> =>
  state.set("default", "notes", key, { value: Buffer.from(value), isJson: false, expiresAt: null, expected, room });

for (let count = 0; ; count++) {
  const key = `${writer}/${count % 50}`;
  if (count % 7 === 6) {
    if (await state.delete("default", "notes", key)) writeSync(1, `delete ${key}\n`);
  } else {
    const value = `${count}:${"x".repeat((count * 97) % 5_000)}`;
    writeSync(1, `set ${key} ${value} ${await set(key, value)}\n`);
  }
  const counted = await state.get("default", "notes", "count");
  const next = String(Number(counted ? Buffer.from(counted.value).toString() : 0) + 1);
  if ((await set("count", next, counted?.version ?? 0)) !== undefined) writeSync(1, `count ${next}\n`);
}
