import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { SERVICE } from "../../src/audit/audit-entry.ts";
import { verifyLog } from "../../src/audit/verify.ts";
import { gathered } from "./gathered.ts";
import { openWhere } from "./open-where.ts";
import { killWriter } from "./store.ts";

/** For the tests, with small numbers, and for `npm run soak`, with large ones. */

export const WRITERS = ["one", "two", "three"] as const;
const KILLED_WITHIN = 400;
const writerFile = fileURLToPath(new URL("./audit-writer.js", import.meta.url));

/**
 * Several processes save until they have acknowledged so many saves; each is killed again and again, after some save or
 * another. Asserts that every acknowledged save is there, and each save with one audit record.
 */
export async function saveUnderKills(where: string, saves: number): Promise<{ saves: number; kills: number }> {
  const acknowledged = new Map<string, string[]>();
  let [done, kills] = [0, 0];
  while (done < saves) {
    const tenants = WRITERS.map((writer) => `${writer}-${kills}`);
    const killed = tenants.map(async (writer) => {
      const cids = await killWriter(where, { writer, writes: 1 + Math.floor(Math.random() * KILLED_WITHIN) });
      return [writer, cids] as const;
    });
    for (const [tenant, cids] of await Promise.all(killed)) {
      acknowledged.set(tenant, cids);
      done += cids.length;
      kills += 1;
    }
  }
  const store = await openWhere(where);
  try {
    const recorded = await recordedNames(where);
    for (const [tenant, cids] of acknowledged) {
      const records = recorded.get(tenant)!;
      for (const [number, cid] of cids.entries()) {
        const name = `name-${number}`;
        assert.equal((await store.name(tenant, "variable", name))?.cid, cid, `${tenant} ${name}`);
        assert.deepEqual(records.get(name), [cid], `${tenant} ${name} has one record`);
      }
      const names = (await store.names(tenant, "variable")).filter(({ name }) => name !== "last");
      assert.equal(records.size, names.length, `${tenant}: what was not acknowledged has a record where it is there`);
    }
    const { fault, records } = await verifyLog(store.audit);
    assert.deepEqual([fault, records >= done], [undefined, true]);
  } finally {
    await store.close();
  }
  return { saves: done, kills };
}

/** The contents that each name of each tenant was set to, as the log says. */
async function recordedNames(where: string): Promise<Map<string, Map<string, string[]>>> {
  const store = await openWhere(where);
  const recorded = new Map<string, Map<string, string[]>>();
  for (const { tenant, kind, body } of await gathered(store.audit.all())) {
    if (kind !== "edit") continue;
    const { names } = JSON.parse(body!) as { names: { name: string; to: string }[] };
    const ofTenant = recorded.get(tenant) ?? new Map<string, string[]>();
    recorded.set(tenant, ofTenant);
    for (const { name, to } of names) {
      if (name !== "last") ofTenant.set(name, [...(ofTenant.get(name) ?? []), to]);
    }
  }
  await store.close();
  return recorded;
}

/** Several processes append so many records each at once. Asserts that all are there and that every chain is whole. */
export async function recordTogether(where: string, records: number): Promise<void> {
  await Promise.all(
    WRITERS.map(async (writer) => {
      const args = [writerFile, where, writer, String(records)];
      const [code] = await once(spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] }), "exit");
      assert.equal(code, 0);
    }),
  );
  const store = await openWhere(where);
  try {
    const { fault, chains } = await verifyLog(store.audit);
    assert.deepEqual([fault, chains], [undefined, WRITERS.length + 2]);
    const said = new Map<string, number[]>(WRITERS.map((writer) => [writer, []]));
    for (const { tenant, kind, body } of await gathered(store.audit.all())) {
      if (kind !== "login") continue;
      const { writer, number } = JSON.parse(body!) as { writer: string; number: number };
      assert.ok([writer, "shared", SERVICE].includes(tenant));
      said.get(writer)!.push(number);
    }
    const all = Array.from({ length: records }, (_, index) => index + 1);
    for (const numbers of said.values()) assert.deepEqual(numbers, all, "each once, in its order");
  } finally {
    await store.close();
  }
}
