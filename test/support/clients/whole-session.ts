import assert from "node:assert/strict";
import { it } from "node:test";
import { pluck } from "../rows.ts";
import { inSuite } from "../suite.ts";
import { until } from "../until.ts";
import type { SessionOpener } from "./client-session.ts";

/**
 * Everything that a client does, in one session with the server `whole`. `inForce` resolves when a change of the server
 * that one node has made is known to all.
 */
export function wholeSession(
  opener: SessionOpener,
  url: () => string,
  inForce: () => Promise<unknown> = async () => {},
): void {
  const { name, version, missingResource } = opener;
  const session = inSuite(() => opener.open(url()));

  it(`${name} learns who the server is, that it speaks ${version}, and what it can do (T3.1, T3.2, T3.3)`, () => {
    assert.equal(session.version, version);
    assert.equal(session.era, version === "2026-07-28" ? "modern" : "legacy");
    assert.equal(session.serverName, "whole");
    const { tools, resources, prompts, completions } = session.capabilities;
    assert.deepEqual(tools, { listChanged: true });
    assert.deepEqual(resources, { subscribe: true, listChanged: true });
    assert.deepEqual(prompts, { listChanged: true });
    assert.deepEqual(completions, {});
  });

  it(`${name} has a session exactly when its revision and transport have sessions (T9.5)`, () => {
    const hasSessions = session.era === "legacy" && !name.includes("SSE");
    assert.equal(session.sessionId !== undefined, hasSessions);
  });

  it(`${name} lists tools, resources, templates and prompts (T6.1, T7.1)`, async () => {
    const tools = await session.tools();
    const expected = "greet gallery fail brew pour work fate forecast poem folders remark write door treasure";
    assert.deepEqual(tools, expected.split(" "));
    assert.deepEqual(await session.resources(), ["notes://shopping", "notes://logo", "notes://broken"]);
    assert.deepEqual(await session.templates(), ["notes://{year}/{title}"]);
    assert.deepEqual(await session.prompts(), ["review", "motto"]);
  });

  it(`${name} calls a tool, with defaults and structured content (T5.1, T5.3, T13.3)`, async () => {
    const { content, structuredContent, isError } = await session.call("greet", { name: "Zoë 👋" });
    assert.deepEqual(structuredContent, { greeting: "Hello, Zoë 👋!" });
    assert.equal(content[0]?.text, '{"greeting":"Hello, Zoë 👋!"}');
    assert.notEqual(isError, true);
  });

  it(`${name} gets text, image, audio, an embedded resource and a link (S8)`, async () => {
    const { content } = await session.call("gallery");
    assert.deepEqual(pluck(content, "type"), ["text", "image", "audio", "resource", "resource_link"]);
  });

  it(`${name} is told what is wrong with a call (T5.2, T5.4, T5.5)`, async () => {
    const failed = await session.call("fail");
    assert.equal(failed.isError, true);
    assert.match(failed.content[0]?.text ?? "", /out of tea/);
    const incomplete = await session.call("greet", {});
    assert.equal(incomplete.isError, true);
    assert.match(incomplete.content[0]?.text ?? "", /name/);
    await assert.rejects(session.call("juggle"), { code: -32602 });
  });

  it(`${name} reads text, bytes and a template (T6.2, T6.3)`, async () => {
    const [shopping] = await session.read("notes://shopping");
    assert.equal((shopping as { mimeType: string }).mimeType, "text/plain");
    const [logo] = await session.read("notes://logo");
    const { blob, mimeType } = logo as { blob: string; mimeType: string };
    assert.equal(mimeType, "image/png");
    assert.equal(Buffer.from(blob, "base64").subarray(1, 4).toString(), "PNG");
    const [day] = await session.read("notes://2025/a%20%26%20b");
    assert.deepEqual(JSON.parse((day as { text: string }).text), { year: "2025", title: "a & b" });
  });

  it(`${name} is told that a resource is missing or that reading it fails (T6.5, T12.4)`, async () => {
    const error = { code: missingResource, message: /No such resource: notes:/ };
    await assert.rejects(session.read("notes://nowhere"), error);
    await assert.rejects(session.read("notes://1999/x"), error);
    await assert.rejects(session.read("notes://broken"), { code: -32603, message: /the shelf fell/ });
  });

  it(`${name} gets prompts without and with arguments (T7.2, T7.3)`, async () => {
    assert.deepEqual(await session.prompt("motto"), [{ role: "user", content: { type: "text", text: "Be brief." } }]);
    assert.deepEqual(await session.prompt("review", { language: "Dutch", tone: "frank" }), [
      { role: "user", content: { type: "text", text: "Review this Dutch text, be frank." } },
      { role: "assistant", content: { type: "text", text: "Gladly." } },
    ]);
  });

  it(`${name} is told that a prompt is missing, or an argument missing or invalid (T7.4, T7.5)`, async () => {
    await assert.rejects(session.prompt("sermon"), { code: -32602, message: /sermon/ });
    await assert.rejects(session.prompt("review"), { code: -32602, message: /language/ });
    await assert.rejects(session.prompt("review", { language: "Dutch", tone: "harsh" }), {
      code: -32602,
      message: /tone/,
    });
  });

  it(`${name} completes arguments of a prompt and of a template (S11)`, async () => {
    const language = { prompt: "review", argument: "language" };
    assert.deepEqual(await session.complete(language, "D"), ["Danish", "Dutch"]);
    assert.deepEqual(await session.complete(language, "D", { tone: "frank" }), ["Dutch"]);
    assert.deepEqual(await session.complete({ template: "notes://{year}/{title}", argument: "year" }, "202"), [
      "2024",
      "2025",
    ]);
  });

  it(`${name} subscribes to a resource and hears of its updates until it unsubscribes (S11)`, async () => {
    const { updated } = session.heard;
    const unsubscribe = await session.subscribe("notes://shopping");
    await session.call("write", { text: `${name}: milk` });
    await until(() => updated.length === 1);
    assert.deepEqual(updated, ["notes://shopping"]);
    assert.equal(((await session.read("notes://shopping"))[0] as { text: string }).text, `${name}: milk`);
    await unsubscribe();
    await session.call("write", { text: "unwatched" });
    await inForce();
    const unsubscribeAgain = await session.subscribe("notes://shopping");
    await session.call("write", { text: "bread" });
    await until(() => updated.length > 1);
    await session.call("greet", { name });
    assert.equal(updated.length, 2);
    await unsubscribeAgain();
  });

  it(`${name} hears of a tool that goes and comes back (S11)`, async () => {
    const { toolLists } = session.heard;
    await session.call("door", { open: false });
    await until(() => toolLists.length === 1);
    await inForce();
    assert.equal(toolLists[0]?.includes("treasure"), false);
    await assert.rejects(session.call("treasure"), { code: -32602 });
    await session.call("door", { open: true });
    await until(() => toolLists.length === 2);
    await inForce();
    assert.equal(toolLists[1]?.includes("treasure"), true);
    assert.equal((await session.call("treasure")).content[0]?.text, "gold");
  });

  it(`${name} gets progress while the tool still runs (S3)`, async () => {
    const seen: (string | undefined)[] = [];
    const brewing = session.call("brew", { cup: name }, { onprogress: ({ message }) => seen.push(message) });
    await until(() => seen.length === 2);
    // Only now can the tool end.
    await session.call("pour", { cup: name });
    assert.equal((await brewing).content[0]?.text, `${name} is ready`);
    assert.deepEqual(seen, ["water boils", "tea draws"]);
  });

  it(`${name} gets the result alone when it asks for no progress (S4)`, async () => {
    await session.call("pour", { cup: "early" });
    assert.deepEqual((await session.call("brew", { cup: "early" })).content, [
      { type: "text", text: "early is ready" },
    ]);
  });

  it(`${name} cancels a call, and the tool's signal is aborted (S5)`, async () => {
    const fate = async (): Promise<string | undefined> => (await session.call("fate", { name })).content[0]?.text;
    const controller = new AbortController();
    const working = session.call("work", { name }, { signal: controller.signal });
    const rejected = assert.rejects(working);
    await until(async () => (await fate()) === "running");
    controller.abort(new Error("enough"));
    await rejected;
    await until(async () => (await fate()) !== "running");
    assert.equal(await fate(), "cancelled");
  });

  it(`${name} is asked, and its user accepts or declines (P4)`, async () => {
    const { questions } = session.heard;
    session.answerWith({ action: "accept", content: { city: "Oslo", unit: "F" } });
    assert.equal((await session.call("forecast")).content[0]?.text, "Oslo: 7 °F");
    session.answerWith({ action: "decline" });
    assert.equal((await session.call("forecast")).content[0]?.text, "no place: decline");
    assert.deepEqual(questions, ["Where are you?", "Where are you?"]);
  });

  it(`${name} lends its model and tells its folders`, async () => {
    assert.equal((await session.call("poem", { topic: "tea" })).content[0]?.text, "A poem about tea: roses");
    assert.equal((await session.call("folders")).content[0]?.text, "file:///home/berth");
  });

  it(`${name} gets log lines from the level that it sets (S11)`, async () => {
    const { logged } = session.heard;
    await session.setLogLevel("warning");
    await session.call("remark", { text: "rain" });
    await until(() => logged.length === 1);
    await session.setLogLevel("debug");
    // A node that is slow to answer is not waited for, and learns of the level after this client.
    await until(async () => {
      await session.call("remark", { text: "snow" });
      return logged.includes("a detail of snow") && logged.at(-1) === "snow";
    });
    assert.deepEqual([logged[0], ...logged.slice(-2)], ["rain", "a detail of snow", "snow"]);
  });

  it(`${name} makes many calls at once and gets each its own answer (T13.4)`, async () => {
    const names = Array.from({ length: 40 }, (_, index) => `${name} ${index}`);
    const answers = await Promise.all(names.map((each) => session.call("greet", { name: each })));
    assert.deepEqual(
      pluck(answers, "structuredContent"),
      names.map((each) => ({ greeting: `Hello, ${each}!` })),
    );
  });
}
