import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Compiled } from "../../../src/discover/discovery.ts";
import { createCompileQueue } from "../../../src/host/catalog/compile-queue.ts";

describe("compiling in turn", () => {
  const never = async (): Promise<Compiled> => assert.fail("nothing takes long");

  it("has tenants that wait take turns, whoever saved more, and goes on after what fails (C8)", async () => {
    const order: string[] = [];
    const compile = createCompileQueue(async ({ entry }) => {
      order.push(entry);
      if (entry === "acme 1") throw new Error("the compiler failed");
      return { problems: [] } as unknown as Compiled;
    }, never);
    const save = (tenant: string, number: number) =>
      compile({ language: "shell", server: "any", entry: `${tenant} ${number}`, files: {} }, tenant);
    const saved = [save("evil", 1), save("evil", 2), save("evil", 3), save("acme", 1), save("acme", 2)];
    await Promise.allSettled(saved);
    assert.deepEqual(order, ["evil 1", "evil 2", "acme 1", "evil 3", "acme 2"]);
  });

  it("compiles nothing for whoever has left before its turn", async () => {
    const order: string[] = [];
    const compile = createCompileQueue(async ({ entry }) => {
      order.push(entry);
      return { problems: [] } as unknown as Compiled;
    }, never);
    const review = (entry: string, signal?: AbortSignal) =>
      compile({ language: "shell", server: "any", entry, files: {} }, "acme", signal);
    const client = new AbortController();
    const waiting = [review("first"), review("left", client.signal), review("stays")];
    client.abort();
    await assert.rejects(waiting[1]!, { code: "cancelled" });
    await assert.rejects(review("gone", client.signal), { code: "cancelled" });
    await Promise.all([waiting[0], waiting[2]]);
    assert.deepEqual(order, ["first", "stays"]);
  });

  it("compiles what takes long again where none but its like wait for it", async () => {
    const ended: string[] = [];
    const problem = (code: string): Compiled => ({ problems: [{ code }] }) as unknown as Compiled;
    let goOn!: () => void;
    const isFree = new Promise<void>((resolve) => (goOn = resolve));
    const compile = createCompileQueue(
      async ({ entry }) => problem(entry === "heavy" ? "compiler-timeout" : "fine"),
      async () => isFree.then(() => problem("fine, later")),
    );
    const save = async (tenant: string, entry: string): Promise<void> => {
      const { problems } = await compile({ language: "shell", server: "any", entry, files: {} }, tenant);
      ended.push(`${tenant}: ${problems[0]!.code}`);
    };
    const heavy = save("evil", "heavy");
    await Promise.all([save("acme", "light"), save("acme", "light")]);
    const next = save("evil", "light");
    await save("acme", "light");
    goOn();
    await Promise.all([heavy, next]);
    assert.deepEqual(ended.slice(0, 3), ["acme: fine", "acme: fine", "acme: fine"]);
    assert.deepEqual(ended.slice(3), ["evil: fine, later", "evil: fine, later"]);
  });
});
