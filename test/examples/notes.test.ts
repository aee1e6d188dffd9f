import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { post, request, type Reply } from "../support/berth.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { berthInSuite } from "../support/suite.ts";

/** The example `examples/notes.ts`, served as it stands. */
describe("the server notes", () => {
  const berth = berthInSuite({ files: [join(packageRoot, "examples", "notes.ts")] });

  const send = async (method: string, params: object): Promise<Reply["body"]> =>
    (await post(`${berth.url}/mcp/notes`, request(method, params), { "MCP-Protocol-Version": "2025-06-18" })).body;
  const call = async (name: string, args: object): Promise<Reply["body"]> => {
    const { result, error } = await send("tools/call", { name, arguments: args });
    assert.equal(error, undefined);
    if (result.isError) throw new Error(result.content[0].text);
    return result.structuredContent;
  };
  const read = async (uri: string): Promise<string> => {
    const { result, error } = await send("resources/read", { uri });
    return result?.contents[0].text ?? error.message;
  };

  it("writes, reads, lists and removes notes, which are resources", async () => {
    const { uri } = await call("write", { id: "shopping", title: "Shopping", text: "- tea", tags: ["home"] });
    await call("write", { id: "talk", title: "A talk", text: "Say hello" });
    assert.equal(uri, "notes://note/shopping");
    assert.equal(await read(uri), "# Shopping\n\n- tea");
    assert.equal(await read("notes://all"), "- [Shopping](notes://note/shopping)\n- [A talk](notes://note/talk)");
    const ids = async (args: object): Promise<string[]> =>
      (await call("list", args)).notes.map(({ id }: { id: string }) => id);
    assert.deepEqual(
      [await ids({}), await ids({ tag: "home" }), await ids({ after: "shopping" })],
      [["shopping", "talk"], ["shopping"], ["talk"]],
    );
    const { result } = await send("completion/complete", {
      ref: { type: "ref/resource", uri: "notes://note/{id}" },
      argument: { name: "id", value: "s" },
    });
    assert.deepEqual(result.completion.values, ["shopping"]);
    await call("remove", { id: "talk" });
    assert.match(await read("notes://note/talk"), /No such resource/);
    assert.match(await read("notes://note/..%2Fx"), /No such resource/);
    await assert.rejects(call("write", { id: "Not An Id/..", title: "", text: "" }), /pattern|match/);
  });

  it("lets nobody overwrite what somebody else has changed since, and loses no paragraph", async () => {
    await call("write", { id: "shared", title: "Shared", text: "First" });
    const { version } = await call("read", { id: "shared" });
    await call("write", { id: "shared", title: "Shared", text: "Second", version });
    await assert.rejects(
      call("write", { id: "shared", title: "Shared", text: "Third", version }),
      /Somebody else has changed/,
    );
    await Promise.all(
      Array.from({ length: 10 }, (_, index) => call("append", { id: "shared", paragraph: `And ${index}.` })),
    );
    const { text } = await call("read", { id: "shared" });
    for (let index = 0; index < 10; index++) assert.ok(text.includes(`And ${index}.`), text);
    await assert.rejects(call("append", { id: "absent", paragraph: "x" }), /There is no note "absent"/);
  });

  it("tells those who have subscribed to a note that it was changed", async () => {
    await call("write", { id: "watched", title: "Watched", text: "Before" });
    const client = await LegacyClient.start(`${berth.url}/mcp/notes`);
    const stream = await client.listen();
    await client.result("resources/subscribe", { uri: "notes://note/watched" });
    await call("append", { id: "watched", paragraph: "After" });
    const { method, params } = await stream.nextMessage();
    assert.deepEqual([method, params.uri], ["notifications/resources/updated", "notes://note/watched"]);
    stream.close();
    await client.end();
  });
});
