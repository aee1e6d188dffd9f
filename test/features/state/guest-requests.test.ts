import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BerthError } from "../../../src/lib/errors.ts";
import type { ValueStore } from "../../../src/store/store.ts";
import { GUESTS } from "../../support/guests.ts";
import { openHosted, type Hosted } from "../../support/host.ts";
import { lower } from "../../support/lowered-limits.ts";
import type { Said } from "../../support/stdio-session.ts";

const DEFINITION = `import type { ToolContext } from "berth";
type C = ToolContext;
export const get = async (key: string, { state }: C): Promise<any> => (await state.get(key)) ?? "nothing";
export const entry = async (key: string, { state }: C): Promise<any> => (await state.entry(key)) ?? "nothing";
export const set = (key: string, value: unknown, ms: number | undefined, { state }: C) => state.set(key, value, { expiresInMs: ms });
export const swap = async (key: string, version: number, value: unknown, { state }: C): Promise<any> =>
  (await state.compareAndSet(key, version, value)) ?? "nothing";
export const remove = (key: string, version: number | undefined, { state }: C): Promise<boolean> => state.delete(key, version);
export const list = async (options: any, { state }: C): Promise<any> => state.list(options);
/** @idempotent */
export const count = async ({ state }: C): Promise<number> => state.update<number>("count", (n = 0) => n + 1);
export const bytes = async (length: number, { state }: C): Promise<any> => {
  await state.set("bytes", Uint8Array.from({ length }, (_, index) => index % 256));
  const read = await state.get("bytes");
  return { isBytes: read instanceof Uint8Array, length: read.length, last: read.at(-1) };
};
const odd: Record<string, () => unknown> = {
  undefined: () => undefined,
  function: () => () => 1,
  bigint: () => ({ n: 1n }),
  map: () => ({ m: new Map() }),
  nan: () => [NaN],
  bytes: () => ({ b: new Uint8Array(2) }),
  cycle: () => { const a: any = {}; a.a = a; return a; },
  deep: () => { let a: unknown = 1; for (let i = 0; i < 300; i++) a = [a]; return a; },
};
export const setOdd = (kind: string, { state }: C): Promise<number> => state.set("odd", odd[kind]!());
/** Says what went wrong, as its code sees it. */
export const caught = async (key: string, { state }: C): Promise<any> => {
  try { await state.set(key, "x".repeat(10)); } catch (error: any) { return { code: error.code, transient: error.transient, message: error.message }; }
  return "done";
};
export const flood = async (times: number, length: number, { state }: C): Promise<any> => {
  const ends = await Promise.allSettled(Array.from({ length: times }, (_, n) => state.set("flood " + n, "x".repeat(length))));
  return ends.map((end) => (end.status === "rejected" ? end.reason.code ?? end.reason.message : "kept"));
};
`;

const MEBIBYTE = 1024 * 1024;

const mode = GUESTS;

describe(`the state of a server whose code is ${mode}`, () => {
  let hosted: Hosted;
  let restore: () => void;
  let broken: keyof ValueStore | undefined;
  before(async () => {
    restore = lower({ valuesPerServer: 200 });
    hosted = await openHosted(
      { notes: DEFINITION, other: DEFINITION, small: DEFINITION },
      { stateBytesPerServer: MEBIBYTE },
      (store) => ({
        ...store,
        values: new Proxy(store.values, {
          get: (values, name: keyof ValueStore) =>
            name === broken
              ? () => Promise.reject(new BerthError("store_failed", "the disk of the data folder fails"))
              : values[name],
        }),
      }),
      mode,
    );
  });
  after(async () => {
    await hosted.close();
    restore();
  });

  const call = async (tool: string, args = {}, server = "notes"): Promise<Said> => {
    const result = await (await hosted.catalog(server)).tool(tool)!.call(args, {});
    assert.ok("content" in result);
    const [block] = result.content as readonly { text?: string }[];
    if (result.isError) throw new Error(block!.text);
    return result.structuredContent ?? (block?.text === undefined ? undefined : valueOf(block.text));
  };

  it("outlives calls, processes, releases and restarts", async () => {
    const version = await call("set", { key: "a", value: { title: "kept", tags: ["x", null] } });
    assert.deepEqual(await call("get", { key: "a" }), { title: "kept", tags: ["x", null] });
    await hosted.define("notes", `${DEFINITION}\nexport const isNew = (): boolean => true;`);
    assert.equal(await call("isNew"), true);
    assert.deepEqual(await call("get", { key: "a" }), { title: "kept", tags: ["x", null] });
    await hosted.restart();
    const { value, version: now } = await call("entry", { key: "a" });
    assert.deepEqual([value.title, now], ["kept", version]);
  });

  it("is out of reach of other servers, whatever key they name", async () => {
    await call("set", { key: "mine", value: 1 });
    assert.equal(await call("get", { key: "mine" }, "other"), "nothing");
    assert.equal(await call("remove", { key: "mine" }, "other"), false);
    assert.deepEqual((await call("list", { options: {} }, "other")).entries, []);
    for (const key of ["notes/mine", "../notes/mine", "notes\u0020mine", "' OR 1=1 --"]) {
      assert.equal(await call("get", { key }, "other"), "nothing");
    }
    assert.equal(await call("get", { key: "mine" }), 1);
  });

  it("keeps bytes as bytes, and every JSON value as it is", async () => {
    assert.deepEqual(await call("bytes", { length: 65_536 }), { isBytes: true, length: 65_536, last: 255 });
    assert.deepEqual(await call("bytes", { length: 0 }), { isBytes: true, length: 0 });
    for (const value of [null, false, 0, "", [], {}, "ü😀\u2028", 1e300, { "": [[]] }, '"\\'.repeat(10_000)]) {
      await call("set", { key: "json", value });
      assert.deepEqual((await call("entry", { key: "json" })).value, value);
    }
  });

  it("takes keys of any characters but control characters, and lists them by what they begin with", async () => {
    const keys = [
      "a b",
      "a/../b",
      "%2e%2e",
      "<script>",
      "'\"`",
      "__proto__",
      "constructor",
      "😀",
      "\u202eabc",
      "ä".repeat(254),
    ];
    for (const key of keys) await call("set", { key: `odd:${key}`, value: key });
    const { entries } = await call("list", { options: { prefix: "odd:", values: true } });
    assert.deepEqual(entries.map(({ value }: { value: string }) => value).sort(), keys.toSorted());
    for (const key of ["", "\u0000", "a\nb", "\u007f", "\ud800", "x".repeat(513), "ä".repeat(257)]) {
      await assert.rejects(
        call("set", { key, value: 1 }),
        /a key of state (?:must not be empty|may have at most 512 bytes|must not contain control)/,
      );
      await assert.rejects(call("get", { key }), /a key of state/);
    }
  });

  it("refuses values that are no JSON, are too long, or nest too deep, and says which", async () => {
    const refusals = {
      undefined: /the value for the key "odd" is undefined/,
      function: /is a function/,
      bigint: /BigInt/,
      map: /contains a Map at \/m, which JSON cannot represent; store/,
      nan: /would become null, .*\/0 is NaN/,
      bytes: /contains bytes, .* a key of their own/,
      cycle: /circular/,
      deep: /nests more than 256 levels/,
    };
    for (const [kind, message] of Object.entries(refusals)) await assert.rejects(call("setOdd", { kind }), { message });
    const long = /65539 bytes, and a value of state may have at most 65536; split it/;
    await assert.rejects(call("set", { key: "long", value: "x".repeat(65_537) }), { message: long });
    await call("set", { key: "long", value: "x".repeat(65_534) });
    await assert.rejects(call("bytes", { length: 65_537 }), /65537 bytes/);
    assert.equal(await call("get", { key: "odd" }), "nothing");
  });

  it("lets one of several writers win, and loses no change made by update", async () => {
    const version = await call("set", { key: "race", value: 0 });
    const tries = await Promise.all(
      Array.from({ length: 10 }, (_, value) => call("swap", { key: "race", version, value })),
    );
    const won = tries.filter((version) => version !== "nothing");
    assert.equal(won.length, 1);
    assert.deepEqual((await call("entry", { key: "race" })).value, tries.indexOf(won[0]));
    assert.equal(await call("swap", { key: "race", version: 0, value: "new" }), "nothing");
    assert.equal(await call("remove", { key: "race", version }), false);
    assert.equal(await call("remove", { key: "race", version: won[0] }), true);
    await Promise.all(Array.from({ length: 20 }, () => call("count")));
    assert.equal(await call("get", { key: "count" }), 20);
  });

  it("lets a value expire, and takes no time that is none", async () => {
    await call("set", { key: "hour", value: 1, ms: 3_600_000 });
    const { expiresAt } = await call("entry", { key: "hour" });
    assert.ok(expiresAt > Date.now() + 3_000_000 && expiresAt <= Date.now() + 3_600_000);
    for (const ms of [0, -1, 0.5, 1e15])
      await assert.rejects(call("set", { key: "short", value: 1, ms }), /expiresInMs/);
  });

  it("keeps no more than its room, however it is flooded, and serves on", async () => {
    const ends: string[] = [];
    for (let round = 0; round < 5; round++) ends.push(...(await call("flood", { times: 60, length: 10_000 }, "small")));
    assert.deepEqual(new Set(ends), new Set(["kept"]), "the same keys again take no more room");
    const more = await call("flood", { times: 64, length: 60_000 }, "small");
    assert.ok(more.includes("state_full"), more.join());
    const size = (await hosted.store.values.sizes("default", "state")).find(({ server }) => server === "small");
    assert.ok(size!.bytes <= MEBIBYTE, `${size!.bytes}`);
    const waiting = await call("flood", { times: 300, length: 1 }, "small");
    const areSomeRefused = waiting.some((end: string) => /requests are already waiting/.test(end));
    assert.ok(areSomeRefused, "no more than 64 at a time");
    const told = await call("caught", { key: "one more key" }, "small");
    assert.ok(told === "done" || told.code === "state_full");
  });

  it("is listed no further than its limits, and goes on from there", async (t) => {
    t.after(lower({ valueListKeys: 3, valueListBytes: 20, valueKeyBytes: 7 }));
    for (const key of ["a", "b", "c", "d", "e"])
      await call("set", { key: `page/${key}`, value: "x".repeat(8) }, "other");
    await assert.rejects(call("set", { key: "a longer", value: 1 }, "other"), /at most 7 bytes/);
    const list = (options: object): Promise<Said> =>
      call("list", { options: { prefix: "page/", ...options } }, "other");
    const keys = (found: Said): string => found.entries.map(({ key }: Said) => key.slice("page/".length)).join("");
    const first = await list({ limit: 100 });
    assert.deepEqual([keys(first), first.next], ["abc", "page/c"]);
    const [{ bytes, value }] = first.entries;
    assert.deepEqual([bytes, value], [10, undefined]);
    assert.equal(keys(await list({ after: "page/c" })), "de");
    const some = await list({ values: true });
    assert.deepEqual([keys(some), some.entries[0].value], ["ab", "xxxxxxxx"], "20 bytes of values");
    await assert.rejects(list({ limit: 0 }), /"limit"/);
    await assert.rejects(list({ prefix: "\u0000" }), /control characters/);
  });

  it("fails as store_failed, and is tried again, while the store cannot be read or written", async () => {
    await call("set", { key: "a", value: 1 });
    for (const [name, tool, args] of [
      ["get", "get", { key: "a" }],
      ["set", "set", { key: "a", value: 2 }],
      ["list", "list", { options: {} }],
      ["delete", "remove", { key: "a" }],
    ] as const) {
      broken = name;
      await assert.rejects(call(tool, args), /The store failed: .*\nThe same call may succeed when repeated\./s);
    }
    broken = "set";
    assert.deepEqual(await call("caught", { key: "b" }), {
      code: "store_failed",
      transient: true,
      message: "The store failed: the disk of the data folder fails",
    });
    broken = undefined;
    assert.equal(await call("get", { key: "a" }), 1, "nothing was changed");
  });

  it("can be read and not changed on a read-only instance", async () => {
    await call("set", { key: "a", value: 1 });
    await hosted.restart({ writable: false });
    try {
      assert.equal(await call("get", { key: "a" }), 1);
      await assert.rejects(call("set", { key: "a", value: 2 }), /started read-only/);
      await assert.rejects(call("remove", { key: "a" }), /started read-only/);
    } finally {
      await hosted.restart();
    }
    assert.equal(await call("get", { key: "a" }), 1);
  });
});

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
