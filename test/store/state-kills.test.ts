import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { testFolders } from "../support/store.ts";

const writerFile = fileURLToPath(new URL("../support/state-writer.js", import.meta.url));
const dataDir = testFolders("state-kills")();

/** Runs a writer until it has acknowledged this many changes, and kills it in the middle of the next ones. */
async function killedAfter(writer: string, changes: number): Promise<string[]> {
  const child = spawn(process.execPath, [writerFile, dataDir, writer], { stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout }))
    if (lines.push(line) === changes) child.kill("SIGKILL");
  await closed;
  return lines;
}

describe("state that was acknowledged", () => {
  it("is there after the processes that wrote it were killed, with nothing half done and no change lost", async () => {
    const standing = new Map<string, string>();
    const seen = new Map<string, string>();
    let counted = 0;
    for (let round = 1; round <= 2; round++) {
      // Two processes at once, which share one key.
      const outputs = await Promise.all(["one", "two"].map((writer) => killedAfter(writer, 100 * round)));
      for (const line of outputs.flat()) {
        const [what, key, value] = line.split(" ") as [string, string, string];
        if (what === "count") counted++;
        else if (what === "set") standing.set(key, value);
        else standing.delete(key);
        seen.set(key, line);
      }
      const store = await openSqliteStore({ dataDir });
      try {
        const { items } = await store.state.list("default", "notes", { prefix: "", max: 1_000, valueBytesMax: 1e9 });
        const kept = new Map(items.map(({ key, value }) => [key, Buffer.from(value!).toString()]));
        // Each writer may have made one more change that it could not tell of, of a key or of the count.
        const others = [...standing].filter(([key, value]) => kept.get(key) !== value);
        assert.ok(others.length <= 2, others.map(([key]) => `${key}: ${seen.get(key)?.slice(0, 40)}`).join(", "));
        const untold = Number(kept.get("count")) - counted;
        assert.ok(untold >= 0 && untold <= 2, `${untold} more than were acknowledged`);
        counted = Number(kept.get("count"));
        kept.delete("count");
        standing.clear();
        for (const [key, value] of kept) standing.set(key, value);
        const [size] = await store.state.sizes("default");
        const bytes = items.reduce((sum, item) => sum + Buffer.byteLength(item.key) + item.bytes, 0);
        assert.deepEqual(size, { server: "notes", keys: items.length, bytes }, "the sums are those of what is there");
      } finally {
        await store.close();
      }
    }
  });
});
