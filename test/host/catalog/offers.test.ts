import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { Catalog, ReadResult } from "../../../src/host/offers/catalog.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { hostedInSuite } from "../../support/suite.ts";

const DEFINITION = `
import type { ToolContext } from "berth";

/** @resource a://text */
export const text = () => "plain";
/** @resource a://typed text/csv */
export const typed = () => "a,b";
/** @resource a://bytes */
export const bytes = () => new Uint8Array([0, 255]);
/** @resource a://utf8 text/plain */
export const utf8 = () => Buffer.from("häl");
/** @resource a://latin1 text/plain */
export const latin1 = () => Buffer.from([0xe4]);
/** @resource a://picture image/png */
export const picture = async () => Buffer.from([1]);
/** @resource a://blob */
export const blob = () => new Blob(["{}"], { type: "image/svg+xml" });
/** @resource a://json */
export const json = () => ({ a: [1, null], contents: 7 });
/** @resource a://ready text/plain */
export const ready = () => ({ contents: [{ text: "a" }, { uri: "a://other", mimeType: "x/y", blob: Buffer.from("b"), extra: 1 }] });
/** @resource a://nothing */
export const nothing = () => undefined;
/** @resource a://null */
export const none = () => null;
/** @resource a://broken */
export const broken = () => { throw new Error("out of order"); };
/** @resource a://asking */
export const asking = async (context: ToolContext) =>
  (await context.elicit({ message: "Which?", schema: { type: "object", properties: { which: { type: "string" } }, required: ["which"] } })).content?.which;
/** @resource a://exact/7 */
export const exact = () => "exact";
/** @resource a://exact/{id} */
export const byId = (id: number) => \`by \${typeof id} \${id}\`;
/** @resource a://exact/{name}{?tags,deep}  */
export const byName = ({ name, tags = [], deep = false }: { name: "x" | "y"; tags?: string[]; deep?: boolean }) => JSON.stringify({ name, tags, deep });

/** @prompt */
export const word = () => "Hello";
/** @prompt */
export const empty = () => {};
/** The description. @prompt */
export const image = () => Buffer.from([1]);
/** @prompt */
export const messages = (name: string) => [{ role: "user", content: name }, { role: "assistant", content: { type: "text", text: "Yes?" } }, "So", { type: "text", text: "be it" }];
/** @prompt */
export const whole = () => ({ description: "Own", messages: { role: "assistant", content: "Hm" } });
/** @prompt */
export const typedArguments = (count: number, loud = false, mode: "a" | "b" = "a") => JSON.stringify([count, loud, mode]);
/** @prompt */
export const noMessages = () => [{ role: "system", content: "x" }];
/** @prompt */
export const failing = () => { throw new Error("no idea"); };
/** @prompt */
export const askingPrompt = async (context: ToolContext) => (await context.roots())[0]!.uri;

/** @completes messages.name */
export const names = (value: string, others: { mood?: string }) => [value, others.mood ?? "-"];
/** @completes typedArguments.mode */
export const modes = () => ["Alpha", "alpine", "beta"];
/** @completes typedArguments.count */
export const many = () => Array.from({ length: 250 }, (_, n) => String(n + 1000));
/** @completes byId.id */
export const ids = () => 7;
/** @completes byName.name */
export const failingCompletion = () => { throw new Error("no names"); };

export async function ask(context: ToolContext): Promise<string> {
  context.log.named("ask").info({ asked: true });
  const [first] = await context.roots();
  return first!.uri + context.client.name;
}
/** @task deferred */
export async function work(context: ToolContext): Promise<string> { context.startTask(); return "done"; }
export function refuse(context: ToolContext): string { throw context.protocolError("closed"); }
export async function slow(context: ToolContext): Promise<string> { await new Promise((resolve) => setTimeout(resolve, 60_000)); return ""; }
`;

describe("what a definition offers", () => {
  const hosted = hostedInSuite({ demo: DEFINITION });
  let catalog: Catalog;
  before(async () => void (catalog = await hosted.catalog("demo")));

  const read = async (uri: string): Promise<ReadResult["contents"]> => {
    const result = await (await catalog.resource(uri))!.read({});
    assert.ok("contents" in result);
    return result.contents;
  };
  const get = async (name: string, args: Record<string, string> = {}): Promise<unknown> =>
    catalog.prompt(name)!.get(args, {});
  const said = (...texts: string[]) => texts.map((text) => ({ role: "user", content: { type: "text", text } }));

  it("is read as what the function returns: text, bytes, JSON, or contents of its own (T6.2, T6.3)", async () => {
    assert.deepEqual(await read("a://text"), [{ uri: "a://text", mimeType: "text/plain", text: "plain" }]);
    assert.deepEqual(await read("a://typed"), [{ uri: "a://typed", mimeType: "text/csv", text: "a,b" }]);
    const octets = "application/octet-stream";
    assert.deepEqual(await read("a://bytes"), [{ uri: "a://bytes", mimeType: octets, blob: "AP8=" }]);
    assert.deepEqual(await read("a://utf8"), [{ uri: "a://utf8", mimeType: "text/plain", text: "häl" }]);
    assert.deepEqual(await read("a://latin1"), [{ uri: "a://latin1", mimeType: "text/plain", blob: "5A==" }]);
    assert.deepEqual(await read("a://picture"), [{ uri: "a://picture", mimeType: "image/png", blob: "AQ==" }]);
    assert.deepEqual(await read("a://blob"), [{ uri: "a://blob", mimeType: "image/svg+xml", text: "{}" }]);
    const json = { uri: "a://json", mimeType: "application/json", text: '{"a":[1,null],"contents":7}' };
    assert.deepEqual(await read("a://json"), [json]);
    assert.deepEqual(await read("a://ready"), [
      { uri: "a://ready", mimeType: "text/plain", text: "a" },
      { uri: "a://other", mimeType: "x/y", blob: "Yg==" },
    ]);
  });

  it("is not found where there is no such URI, or its function knows nothing there (T6.5)", async () => {
    const long = `a://exact/${"1".repeat(9_000)}`;
    for (const uri of ["a://other", "", "a://text/", "a://exact/z", "a://exact/1/2", long]) {
      assert.equal(await catalog.resource(uri), undefined, uri.slice(0, 20));
    }
    for (const uri of ["a://nothing", "a://null"]) {
      await assert.rejects(read(uri), { code: "resource_not_found", rpc: -32602, data: { uri } });
    }
  });

  it("fails with the function's own words", async () => {
    await assert.rejects(read("a://broken"), { code: "guest_failed", rpc: -32603, message: /: out of order$/ });
    await assert.rejects(get("failing"), { code: "guest_failed", message: /: no idea$/ });
    await assert.rejects(catalog.tool("refuse")!.call({}, {}), { code: "guest_failed", message: /: closed$/ });
  });

  it("is found by its exact URI first, then by the first template that fits", async () => {
    const textOf = async (uri: string) => (await read(uri)).map((contents) => "text" in contents && contents.text)[0];
    assert.equal(await textOf("a://exact/7"), "exact");
    assert.equal(await textOf("a://exact/8"), "by number 8");
    assert.equal(await textOf("a://exact/x"), '{"name":"x","tags":[],"deep":false}');
    assert.equal(await textOf("a://exact/y?deep=true&tags=a,b"), '{"name":"y","tags":["a","b"],"deep":true}');
  });

  it("is a prompt of whatever the function returns (T7.2, T7.3)", async () => {
    assert.deepEqual(await get("word"), { messages: said("Hello") });
    assert.deepEqual(await get("empty"), { messages: [] });
    const uri = `cid://${rawBlock(Uint8Array.of(1)).cid}`;
    const resource = { uri, mimeType: "application/octet-stream", blob: "AQ==" };
    const image = [{ role: "user", content: { type: "resource", resource } }];
    assert.deepEqual(await get("image"), { description: "The description.", messages: image });
    const [hello, ...rest] = ((await get("messages", { name: "Ann" })) as { messages: unknown[] }).messages;
    assert.deepEqual(hello, said("Ann")[0]);
    assert.deepEqual(rest, [{ role: "assistant", content: { type: "text", text: "Yes?" } }, ...said("So", "be it")]);
    const whole = [{ role: "assistant", content: { type: "text", text: "Hm" } }];
    assert.deepEqual(await get("whole"), { description: "Own", messages: whole });
    await assert.rejects(get("noMessages"), { code: "guest_failed", message: /did not return messages/ });
  });

  it("takes a prompt's arguments as texts, and says what is wrong with them (T7.4, T7.5)", async () => {
    assert.equal(catalog.prompt("none"), undefined);
    const all = { count: "3", loud: "true", mode: "b" };
    assert.deepEqual(await get("typedArguments", all), { messages: said('[3,true,"b"]') });
    assert.deepEqual(await get("typedArguments", { count: "3" }), { messages: said('[3,false,"a"]') });
    const invalid = async (args: object, message: RegExp) =>
      assert.rejects(get("typedArguments", args as Record<string, string>), { code: "invalid_params", message });
    await invalid({}, /needs the property "count"/);
    await invalid({ count: "many" }, /\/count must be number/);
    await invalid({ count: 3 }, /\/count must be a string/);
    await invalid({ count: "3", mode: "c" }, /\/mode must be one of/);
    await invalid({ count: "3", other: "x" }, /no property "other"/);
  });

  it("completes arguments, at most 100 at a time", async () => {
    const complete = async (of: string, argument: string, value: string, others = {}) =>
      catalog.completer(of, argument)!.complete(value, others, {});
    const named = await complete("messages", "name", "A", { mood: "good" });
    assert.deepEqual(named, { values: ["A", "good"], total: 2, hasMore: false });
    assert.deepEqual((await complete("typedArguments", "mode", "AL")).values, ["Alpha", "alpine"]);
    const all = await complete("typedArguments", "count", "");
    assert.deepEqual([all.values.length, all.total, all.hasMore], [100, 250, true]);
    const some = await complete("typedArguments", "count", "12");
    assert.deepEqual([some.values[0], some.values.length, some.total, some.hasMore], ["1200", 50, 50, false]);
    await assert.rejects(complete("a://exact/{id}", "id", ""), { code: "guest_failed", message: /list of strings/ });
    await assert.rejects(complete("a://exact/{name}{?tags,deep}", "name", ""), { message: /no names/ });
    for (const [of, argument] of Object.entries({ messages: "other", word: "name", byId: "id" })) {
      assert.equal(catalog.completer(of, argument), undefined, of);
    }
  });

  it("asks its client from tools, resources and prompts alike", async () => {
    const roots = { "roots-1": { roots: [{ uri: "file:///work" }] } };
    const asked = { inputRequests: { "roots-1": { method: "roots/list", params: {} } } };
    const lines: unknown[] = [];
    const tool = catalog.tool("ask")!;
    assert.deepEqual(await tool.call({}, { onLog: (line) => void lines.push(line) }), asked);
    assert.deepEqual(lines, [{ level: "info", message: { asked: true }, logger: "ask" }]);
    const result = await tool.call({}, { answers: roots, client: { name: "me", capabilities: {} } });
    assert.deepEqual("content" in result && result.structuredContent, "file:///workme");

    const prompt = catalog.prompt("askingPrompt")!;
    assert.deepEqual(await prompt.get({}, {}), asked);
    assert.deepEqual(await prompt.get({}, { answers: roots }), { messages: said("file:///work") });

    const resource = (await catalog.resource("a://asking"))!;
    const request = await resource.read({});
    assert.deepEqual("inputRequests" in request && Object.keys(request.inputRequests), ["elicitation-1"]);
    const answers = { "elicitation-1": { action: "accept", content: { which: "this" } } };
    const contents = [{ uri: "a://asking", mimeType: "text/plain", text: "this" }];
    assert.deepEqual(await resource.read({ answers }), { contents });
  });

  it("says when a call becomes a task, and keeps to the time that it is given", async () => {
    assert.deepEqual(catalog.tool("work")!.task, { required: false, deferred: true });
    assert.equal(catalog.tool("ask")!.task, undefined);
    let tasks = 0;
    await catalog.tool("work")!.call({}, { onTask: () => void tasks++ });
    assert.equal(tasks, 1);
    const late = await catalog.tool("slow")!.call({}, { deadlineMs: 50 });
    assert.match(JSON.stringify(late), /deadline of 50 ms \(BERTH_TASK_MS\)/);
  });
});
