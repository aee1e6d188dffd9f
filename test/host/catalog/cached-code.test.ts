import assert from "node:assert/strict";
import { it } from "node:test";
import { CodeCache } from "../../../src/host/catalog/cached-code.ts";
import { lower } from "../../support/lowered-limits.ts";

it("kept code is read once as long as it is used, within keptCodeBytes, and never given to another tenant", async (t) => {
  t.after(lower({ keptCodeBytes: 10 }));
  const reads: string[] = [];
  const kept = new CodeCache();
  const code = async (tenant: string, bundle: string, bytes: number): Promise<void> => {
    const read = async () => {
      reads.push(`${tenant} ${bundle}`);
      return new Uint8Array(bytes);
    };
    assert.equal((await kept.read(tenant, bundle, read)).length, bytes);
  };
  for (let times = 0; times < 3; times++) await code("acme", "one", 4);
  await code("zenith", "one", 4);
  assert.deepEqual(reads.splice(0), ["acme one", "zenith one"]);
  await code("acme", "one", 4);
  await code("acme", "two", 4);
  await code("acme", "one", 4);
  assert.deepEqual(reads.splice(0), ["acme two"], "what was used last stays");
  await code("zenith", "one", 4);
  await code("acme", "long", 11);
  await code("acme", "long", 11);
  assert.deepEqual(reads.splice(0), ["zenith one", "acme long", "acme long"]);
  await code("acme", "one", 4);
  const reading = kept.read("acme", "gone", () => Promise.reject(new Error("no store")));
  await assert.rejects(reading, /no store/);
  await code("zenith", "one", 4);
  assert.deepEqual(reads, [], "what is too long, or fails, takes the place of nothing");
});
