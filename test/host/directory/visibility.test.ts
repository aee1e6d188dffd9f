import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Offer, ServerChange } from "../../../src/host/offers/catalog.ts";
import { lower } from "../../support/lowered-limits.ts";
import { hostedFor, hostedInSuite } from "../../support/suite.ts";

const TENANT = "default";
const definition = (more = ""): string => `
import type { ToolContext } from "berth";
export const first = () => 1;
export const second = () => 2;
/** @prompt */
export const greeting = () => "Hello";
/** @prompt */
export const both = (name: string) => name;
/** @completes both.name */
export const names = () => ["Ann"];
/** @name both */
export const toolOfBoth = () => 3;
/** @resource a://text */
export const text = () => "text";
export async function hide(name: string, context: ToolContext) { await context.hide(name); }
export async function show(name: string, context: ToolContext) { await context.show(name); }
export const offers = (context: ToolContext) => context.listOffers();
export async function update(uris: string[], context: ToolContext) { await Promise.all(uris.map((uri) => context.resourceUpdated(uri))); }
${more}`;

describe("a server changes", () => {
  const hosted = hostedInSuite({ demo: definition(), other: definition() });

  const call = async (tool: string, args = {}, server = "demo"): Promise<unknown> => {
    const result = await (await hosted.catalog(server)).tool(tool)!.call(args, {});
    assert.ok("content" in result);
    if (result.isError) throw new Error((result.content[0] as { text?: string }).text);
    return result.structuredContent;
  };
  const names = async (server = "demo"): Promise<string[]> => {
    const { tools, prompts } = (await hosted.catalog(server)).contract;
    return [...tools, ...prompts].map(({ name }) => name);
  };
  const without = (all: string[], ...gone: string[]) => all.filter((name) => !gone.includes(name));
  const watch = (server = "demo"): { changes: ServerChange[]; end: () => void } => {
    const changes: ServerChange[] = [];
    return { changes, end: hosted.host.watch(TENANT, server, (change) => void changes.push(change)) };
  };
  const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it("once it is saved, whoever is still reading what was saved before", async () => {
    const { store } = hosted;
    const read = store.changesAfter.bind(store);
    let goOn = (): void => {};
    const stopped = new Promise<void>((resolve) => (goOn = resolve));
    let hasRead = (): void => {};
    const begun = new Promise<"begun">((resolve) => (hasRead = () => resolve("begun")));
    store.changesAfter = async (...asked) => {
      store.changesAfter = read;
      const changes = await read(...asked);
      hasRead();
      await stopped;
      return changes;
    };
    const slow = hosted.host.reload(TENANT);
    assert.equal(await Promise.race([begun, slow]), "begun", "it was read without asking what has changed");
    await hosted.define("meanwhile", "export const one = () => 1;");
    goOn();
    await slow;
    assert.deepEqual(await names("meanwhile"), ["one"]);
  });

  it("by hiding tools and prompts, and showing them again where they were", async () => {
    const all = await names();
    const before = await hosted.catalog("demo");
    await call("hide", { name: "second" });
    const hidden = await hosted.catalog("demo");
    assert.deepEqual(await names(), without(all, "second"));
    assert.equal(hidden.tool("second"), undefined);
    assert.notEqual(hidden.contractCid, before.contractCid);
    assert.notEqual(hidden.release, before.release);

    await call("hide", { name: "both" });
    assert.deepEqual(await names(), without(all, "second", "both"));
    const fewer = await hosted.catalog("demo");
    assert.deepEqual([fewer.prompt("both"), fewer.completer("both", "name")], [undefined, undefined]);

    const offers = (await call("offers")) as (Offer & { visible: boolean })[];
    const gone = offers.filter(({ visible }) => !visible).map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(gone, ["tool second", "tool both", "prompt both"]);
    assert.equal(offers.length, all.length);

    await call("show", { name: "both" });
    await call("show", { name: "second" });
    assert.deepEqual(await names(), all);
    const shown = await hosted.catalog("demo");
    assert.deepEqual([shown.contractCid, shown.release], [before.contractCid, before.release]);
    assert.ok(shown.completer("both", "name"));
  });

  it("only by what is not so already, and by names that it has", async () => {
    const { changes, end } = watch();
    const before = await hosted.catalog("demo");
    await call("show", { name: "second" });
    assert.equal(await hosted.catalog("demo"), before);
    await assert.rejects(call("hide", { name: "third" }), /no tool or prompt "third"/);
    await assert.rejects(call("hide", { name: "constructor" }), /no tool or prompt/);
    assert.equal((await hosted.store.history(TENANT, "visibility", "demo")).length, 4);
    assert.deepEqual(changes, []);
    end();
  });

  it("no more often than it may, and what it may not writes nothing", async (t) => {
    t.after(lower({ visibilityChangesPerMinute: 2 }));
    const slow = await hostedFor(t, { demo: definition(), other: definition("// other") });
    const call = async (server: string, tool: string): Promise<string> => {
      const result = await (await slow.catalog(server)).tool(tool)!.call({ name: "first" }, {});
      assert.ok("content" in result);
      return result.isError ? ((result.content[0] as { text?: string }).text ?? "") : "done";
    };
    assert.deepEqual([await call("demo", "hide"), await call("demo", "show")], ["done", "done"]);
    const refused = /"demo" may hide and show what it offers 2 times a minute; try again in \d+ s/;
    assert.match(await call("demo", "hide"), refused);
    assert.equal(await call("demo", "show"), "done", "what is so already is no change");
    assert.equal((await slow.store.history(TENANT, "visibility", "demo")).length, 2);
    assert.equal(await call("other", "hide"), "done", "other servers have a pace of their own");
  });

  it("for good: what it hid stays hidden after a restart", async () => {
    await call("hide", { name: "first" });
    const { contractCid } = await hosted.catalog("demo");
    await hosted.restart();
    assert.ok(!(await names()).includes("first"));
    assert.equal((await hosted.catalog("demo")).contractCid, contractCid);
    assert.ok((await names("other")).includes("first"));
    await call("show", { name: "first" });
    await hosted.restart();
    assert.ok((await names()).includes("first"));
  });

  it("not at all on a read-only boot", async () => {
    await hosted.restart({ writable: false });
    await assert.rejects(call("hide", { name: "first" }), /read-only/);
    assert.ok((await names()).includes("first"));
    await hosted.restart();
  });

  it("one step after the other, when many hide at once", async () => {
    const all = await names();
    const hiding = ["first", "second", "greeting", "both"];
    await Promise.all(hiding.map((name) => call("hide", { name })));
    assert.deepEqual(await names(), without(all, ...hiding));
    await Promise.all(hiding.map((name) => call("show", { name })));
    assert.deepEqual(await names(), all);
  });

  it("and those who watch it hear which list it was, before the call has its result", async () => {
    const demo = watch();
    const other = watch("other");
    await hosted.catalog("other");
    await call("hide", { name: "first" });
    assert.deepEqual(demo.changes, [{ kind: "tools" }]);
    await call("hide", { name: "greeting" });
    await call("hide", { name: "both" });
    assert.deepEqual(demo.changes.slice(1), [{ kind: "prompts" }, { kind: "tools" }, { kind: "prompts" }]);
    assert.deepEqual(other.changes, []);
    demo.end();
    for (const name of ["first", "greeting", "both"]) await call("show", { name });
    assert.equal(demo.changes.length, 4);
    other.end();
  });

  it("and an edit is told by what it changes of the contract, and only then", async () => {
    await hosted.catalog("demo");
    const { changes, end } = watch();
    await hosted.define("demo", definition("// Only a comment."));
    assert.deepEqual(changes, []);
    await hosted.define("demo", definition("export const third = () => 3;"));
    assert.deepEqual(changes.splice(0), [{ kind: "tools" }]);
    await hosted.define("demo", definition("/** @resource a://{x} */ export const x = (x: string) => x;"));
    assert.deepEqual(changes.splice(0), [{ kind: "tools" }, { kind: "resources" }]);
    await hosted.define("demo", "export const broken = (;");
    assert.deepEqual(changes.splice(0), []);
    await hosted.define("demo", definition());
    assert.deepEqual(changes.splice(0), [{ kind: "resources" }]);
    end();
    await hosted.define("demo", definition("export const third = () => 3;"));
    assert.deepEqual(changes, []);
    await hosted.define("demo", definition());
  });

  it("and a server that was not loaded, or is not there yet, can be watched", async () => {
    await hosted.restart();
    const demo = watch();
    const late = watch("late");
    await hosted.catalog("demo");
    await hosted.define("late", definition());
    assert.deepEqual([demo.changes, late.changes], [[], []]);
    await call("hide", { name: "first" });
    await call("hide", { name: "first" }, "late");
    assert.deepEqual([demo.changes, late.changes], [[{ kind: "tools" }], [{ kind: "tools" }]]);
    await call("show", { name: "first" });
    demo.end();
    late.end();
  });

  it("and says which of its resources did, each once a turn", async () => {
    await hosted.catalog("demo");
    const { changes, end } = watch();
    await call("update", { uris: ["a://text", "a://other/1", "a://text"] });
    await endOfTurn();
    assert.deepEqual(
      changes,
      ["a://text", "a://other/1"].map((uri) => ({ kind: "resource", uri })),
    );
    await assert.rejects(call("update", { uris: ["no uri"] }), /cannot be a resource/);
    await assert.rejects(call("update", { uris: [`a://${"x".repeat(9_000)}`] }), /longer than 8192/);
    end();
  });

  it("and a listener that fails, or leaves while it is told, does not keep it from the others", async () => {
    await hosted.catalog("demo");
    const heard: string[] = [];
    const listeners = [
      () => assert.fail("not interested"),
      () => {
        heard.push("leaving");
        ends[1]!();
      },
      () => void heard.push("staying"),
    ];
    const ends = listeners.map((listener) => hosted.host.watch(TENANT, "demo", listener));
    await call("hide", { name: "first" });
    await call("show", { name: "first" });
    assert.deepEqual(heard, ["leaving", "staying", "staying"]);
    for (const end of ends) end();
  });
});
