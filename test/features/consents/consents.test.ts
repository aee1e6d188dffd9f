import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import { digestOfJson } from "../../../src/lib/canonical-json.ts";
import { apiOf } from "../../support/api.ts";
import { modern, MODERN_META, post, request, withStatus } from "../../support/berth.ts";
import { textOf } from "../../support/hosted-upstreams.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
import { rows } from "../../support/rows.ts";
import { berthFor, berthInSuite, temporaryFolder } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";
import { installed } from "../../support/upstreams.ts";

const OWN = `
import type { ToolContext } from "berth";
const schema = { type: "object", properties: { sure: { type: "boolean" } }, required: ["sure"] } as const;
/** Writes. */
export function write(path: string, content = "nothing"): string {
  return \`wrote \${content} to \${path}\`;
}
/**
 * Writes as a task.
 * @task
 */
export function later(path: string): string {
  return \`wrote \${path}\`;
}
/** Asks a question of its own. */
export async function askingToo(path: string, context: ToolContext): Promise<string> {
  const { content } = await context.elicit({ key: "sure", message: "Sure?", schema });
  return \`\${path}: \${content?.sure}, \${JSON.stringify(Object.keys(context.answers))}\`;
}
/** Leads to the tool that writes. */
export function around(path: string): Response {
  return Response.redirect(\`server://own/write?path=\${encodeURIComponent(path)}\`);
}
`;

const YES = { action: "accept", content: { consent: true } };
const CAN = { elicitation: { form: {} } };

// oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
type Any = any;

/** Request metadata of a client with these capabilities. */
const metaOf = (able: object): object => ({ ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": able });
const answersTo = (asked: Any, answer: object = YES) => ({
  requestState: asked.requestState as string,
  inputResponses: Object.fromEntries(Object.keys(asked.inputRequests).map((key) => [key, answer])),
});

describe("a tool whose every call needs consent", () => {
  const folder = temporaryFolder();
  const files = `${installed("@modelcontextprotocol/server-filesystem/dist/index.js")}?arg=${encodeURIComponent(folder)}`;
  const berth = berthInSuite({
    texts: { "own.ts": OWN },
    mcps: {
      files: { upstream: files, consent: ["write_file"] },
      own: { definition: "own.ts", consent: ["write", "later", "askingToo"] },
    },
    env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_ACCESS: "required", BERTH_AUDIT_DELAY_MS: "10" },
  });
  let [ada, eve, admin] = ["", "", ""];
  let names = 0;
  before(async () => {
    const token = async (...can: string[]) => (await makeToken(berth, { can })).token;
    [ada, eve] = [await token("call", "read"), await token("call", "read")];
    admin = await token("call", "read", "edit", "admin", "programs");
  });

  /** Calls a tool in the modern era. */
  async function callAs(token: string, server: string, params: Record<string, unknown>, able: object = CAN) {
    const _meta = { ...metaOf(able), ...(params["_meta"] as object | undefined) };
    const at = server === "" ? "" : `/${server}`;
    const { body } = await modern(`${berth.url}/mcp${at}`, "tools/call", { ...params, _meta }, bearer(token));
    return body.result ?? body.error;
  }

  /** The records of consents to calls with these arguments. */
  async function audited(args: object, outcome: string, count = 1): Promise<Any[]> {
    const sha256 = Buffer.from(digestOfJson(args).sha256, "base64url").toString("hex");
    return until(async () => {
      const path = `/audit?kind=consent&outcome=${outcome}&limit=1000`;
      const { body } = await apiOf(berth).send("GET", path, undefined, bearer(admin));
      const records = body.records.filter((record: Any) => record.arguments?.sha256 === sha256);
      return records.length >= count ? records : undefined;
    });
  }

  /** Makes another release of a server. */
  async function redeploy(server: string): Promise<void> {
    const { body } = await apiOf(berth).send("GET", `/entries/${server}`, undefined, bearer(admin));
    const entry = { ...JSON.parse(body.files[server]), description: `Changed ${++names}` };
    await withStatus(200, apiOf(berth).put(`/entries/${server}`, JSON.stringify(entry), bearer(admin)));
  }

  async function summaryOf(server: string): Promise<Any> {
    const { body } = await apiOf(berth).send("GET", "/servers", undefined, bearer(admin));
    return body.servers.find((each: Any) => each.name === server);
  }

  const fresh = (server = "own") => ({ path: join(folder, `${server}-${++names}.txt`), content: "granted" });
  const isDone = (args: { path: string }, result: Any): boolean =>
    existsSync(args.path) || textOf(result).startsWith("wrote ");
  const write = { server: "own", name: "write" };

  for (const { server, name } of [{ server: "files", name: "write_file" }, write]) {
    it(`is called once its user has consented, which the audit log records (${server})`, async () => {
      const args = fresh(server);
      const asked = await callAs(ada, server, { name, arguments: args });
      assert.equal(asked.resultType, "input_required");
      const [question] = Object.values<Any>(asked.inputRequests);
      assert.match(question.params.message, new RegExp(`"path": "${args.path}"`));
      assert.equal(question.params.requestedSchema.properties.consent.default, undefined);
      assert.ok(!isDone(args, asked));
      const result = await callAs(ada, server, { name, arguments: args, ...answersTo(asked) });
      assert.ok(isDone(args, result), textOf(result));
      if (server === "files") assert.equal(readFileSync(args.path, "utf8"), "granted");
      for (const outcome of ["asked", "granted"]) {
        const [record] = await audited(args, outcome);
        assert.deepEqual([record.server, record.tool], [server, name]);
        assert.deepEqual(Object.keys(record.arguments), ["bytes", "sha256"]);
        assert.ok(!JSON.stringify(record).includes(args.path));
      }
    });

    const answer = (asked: Any, args: object) => callAs(ada, server, { name, arguments: args, ...answersTo(asked) });
    const refusals: [when: string, reason: string, message: RegExp, act: (asked: Any, args: object) => unknown][] = [
      ["a second time", "used", /has been used/, (asked, args) => answer(asked, args)],
      ["with other arguments", "arguments", /other arguments/, () => {}],
      ["by another principal", "principal", /another principal/, () => {}],
      ["in another release", "release", /another release/, () => redeploy(server)],
    ];
    for (const [when, reason, message, act] of refusals) {
      it(`is not called ${when} (${server})`, async () => {
        const args = fresh(server);
        const asked = await callAs(ada, server, { name, arguments: args });
        await act(asked, args);
        rmSync(args.path, { force: true });
        const used = reason === "arguments" ? fresh(server) : args;
        for (const answered of [answersTo(asked), { inputResponses: answersTo(asked).inputResponses }]) {
          const by = reason === "principal" ? eve : ada;
          const result = await callAs(by, server, { name, arguments: used, ...answered });
          assert.match(textOf(result), message);
          assert.ok(!isDone(used, result));
        }
        const refused = await audited(used, "refused", 2);
        assert.deepEqual(rows(refused, "reason"), [reason, reason]);
      });
    }
  }

  it("is called once when two requests use the same answer at the same time", async () => {
    const call = { name: "write", arguments: fresh() };
    const answered = { ...call, ...answersTo(await callAs(ada, "own", call)) };
    const both = await Promise.all([callAs(ada, "own", answered), callAs(ada, "own", answered)]);
    assert.equal(both.filter((result) => /has been used/.test(textOf(result))).length, 1, JSON.stringify(both));
  });

  it("is not called when its user declines, answers without a yes, or cancels", async () => {
    for (const [answer, by] of [
      [{ action: "decline" }, "declined"],
      [{ action: "accept", content: { consent: false } }, "declined"],
      [{ action: "accept", content: {} }, "declined"],
      [{ action: "cancel" }, "cancelled"],
    ] as const) {
      const args = fresh();
      const call = { name: "write", arguments: args };
      const asked = await callAs(ada, "own", call);
      const result = await callAs(ada, "own", { ...call, ...answersTo(asked, answer) });
      assert.equal(result.isError, true);
      assert.ok(!isDone(args, result));
      assert.equal((await audited(args, "declined"))[0].by, by);
      assert.match(textOf(await callAs(ada, "own", { ...call, ...answersTo(asked) })), /has been used/);
    }
  });

  for (const version of ["2025-06-18", "2025-11-25"]) {
    it(`asks in the session of a client of ${version}, whose yes counts for the release of its call`, async () => {
      const url = `${berth.url}/mcp/own`;
      const client = new LegacyClient(url, version);
      const send = client.send.bind(client);
      client.send = (body, headers) => send(body, { ...headers, ...bearer(ada) });
      await client.initialize({ elicitation: {} });
      for (const [answer, outcome] of [
        [YES, "granted"],
        [{ action: "decline" }, "declined"],
        [YES, "refused"],
      ] as const) {
        const args = fresh();
        const events = await client.call("write", args);
        const question = await events.nextMessage();
        assert.equal(question.method, "elicitation/create");
        assert.match(question.params.message, new RegExp(args.path));
        if (outcome === "refused") await redeploy("own");
        await client.answer(question.id, answer);
        const { result } = await events.nextMessage();
        assert.equal(isDone(args, result), outcome === "granted", textOf(result));
        const [record] = await audited(args, outcome);
        if (outcome !== "refused") continue;
        assert.match(textOf(result), /another release/);
        const [asked] = await audited(args, "asked");
        assert.deepEqual([record.reason, record.consent], ["release", asked.consent]);
      }
      await (await fetch(url, { method: "DELETE", headers: { ...client.headers, ...bearer(ada) } })).text();
    });
  }

  it("is called in an earlier release that was asked for by its CID, whatever the current release is", async () => {
    const args = fresh();
    const { release } = await summaryOf("own");
    await redeploy("own");
    const call = { name: "write", arguments: args };
    const asked = await callAs(ada, `own@${release}`, call);
    await redeploy("own");
    const result = await callAs(ada, `own@${release}`, { ...call, ...answersTo(asked) });
    assert.ok(isDone(args, result), textOf(result));
  });

  it("tells a client that cannot ask its user what to do", async () => {
    const args = fresh("files");
    const call = { name: "write_file", arguments: args };
    const error = await callAs(ada, "files", call, {});
    assert.equal(error.code, -32021);
    assert.match(error.message, /needs the consent of the user.*elicitation.*"consent"/);
    const headers = { "MCP-Protocol-Version": "2025-06-18", ...bearer(ada) };
    const legacy = await post(`${berth.url}/mcp/files`, request("tools/call", call), headers);
    assert.match(textOf(legacy.body.result), /needs the consent of the user/);
    const plain = await fetch(`${berth.url}/servers/files/write_file`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...bearer(ada) },
      body: JSON.stringify(args),
    });
    assert.notEqual(plain.status, 200);
    assert.match(await plain.text(), /needs the consent of the user/);
    assert.ok(!existsSync(args.path));
  });

  it("asks at POST /mcp too, under its name there", async () => {
    const args = fresh();
    const call = { name: "own.write", arguments: args };
    const asked = await callAs(ada, "", call);
    assert.equal(asked.resultType, "input_required", JSON.stringify(asked));
    assert.ok(!isDone(args, asked));
    assert.ok(isDone(args, await callAs(ada, "", { ...call, ...answersTo(asked) })));
  });

  it("takes no answer that a caller brings along, or makes up", async () => {
    const args = fresh("files");
    const call = { name: "write_file", arguments: args };
    const asked = await callAs(ada, "files", call);
    const [key] = Object.keys(asked.inputRequests) as [string];
    const brought = { approve: true, [key]: YES, consent: YES };
    const _meta = { "computer.jp/tool": { answers: brought, options: brought } };
    const result = await callAs(ada, "files", { ...call, _meta });
    assert.equal(result.resultType, "input_required", JSON.stringify(result));
    for (const made of ["consent:", "consent:1.AAAA", `${key}A`, `redirect.${key}`, "consent"]) {
      await callAs(ada, "files", { ...call, inputResponses: { [made]: YES } });
    }
    assert.ok(!existsSync(args.path));
  });

  it("asks in a native call and at a release's own address, too", async () => {
    const args = fresh("files");
    const native = await post(`${berth.url}/mcp`, request("files.write_file", args), bearer(ada));
    assert.ok(Object.keys(native.body.result.inputRequests)[0]?.startsWith("consent:"));
    const { release } = await summaryOf("files");
    const pinned = await callAs(ada, `files@${release}`, { name: "write_file", arguments: args });
    assert.equal(pinned.resultType, "input_required", JSON.stringify(pinned));
    assert.ok(!existsSync(args.path));
  });

  /** Starts the tool `later` as a task; `inStatus` waits until it has one of these. */
  async function startTask(args: object, capabilities: object = CAN) {
    const able = { ...capabilities, extensions: { "io.modelcontextprotocol/tasks": {} } };
    const { taskId } = await callAs(ada, "own", { name: "later", arguments: args }, able);
    const send = async (method: string, params: object): Promise<Any> => {
      const headers = { "Mcp-Name": taskId, ...bearer(ada) };
      const all = { taskId, ...params, _meta: metaOf(able) };
      return (await modern(`${berth.url}/mcp/own`, method, all, headers)).body.result;
    };
    const inStatus = (...statuses: string[]) =>
      until(async () => {
        const found = await send("tasks/get", {});
        return statuses.includes(found.status) ? found : undefined;
      });
    const consent = async (meanwhile = async () => {}) => {
      const asked = await inStatus("input_required");
      await meanwhile();
      await send("tasks/update", { inputResponses: answersTo(asked).inputResponses });
      return inStatus("completed", "failed");
    };
    return { inStatus, consent };
  }

  it("asks as a task, too, and goes on with the answer unless the server has changed", async () => {
    const task = await startTask({ path: "a" });
    assert.equal(textOf((await task.consent()).result), "wrote a");
    const cannot = await startTask({ path: "a" }, {});
    assert.match(JSON.stringify(await cannot.inStatus("failed")), /needs the consent of the user/);
    const args = { path: `task-${++names}` };
    const outdated = await startTask(args);
    assert.match(JSON.stringify(await outdated.consent(() => redeploy("own"))), /another release/);
    assert.equal((await audited(args, "refused"))[0].reason, "release");
  });

  it("is what a bad state is excused for, which is refused for every other tool", async () => {
    const bad = { requestState: "1.AAAA", inputResponses: { "consent:made-up": YES } };
    const args = { path: `bad-${++names}` };
    for (const tool of ["own/write", "/own.write"]) {
      const [server, name] = tool.split("/") as [string, string];
      assert.match(
        textOf(await callAs(ada, server, { name, arguments: args, ...bad })),
        /does not belong to any question/,
      );
    }
    for (const tool of ["own/around", "/own.around", "files/list_directory"]) {
      const [server, name] = tool.split("/") as [string, string];
      const { code, message } = await callAs(ada, server, { name, arguments: { path: folder }, ...bad });
      assert.deepEqual([code, /requestState/.test(message)], [-32602, true], `${server} ${name}: ${message}`);
    }
  });

  it("asks once for a call that asks something itself, and shows its function no consent", async () => {
    const call = { name: "askingToo", arguments: { path: "b" } };
    const first = await callAs(ada, "own", call);
    const second = await callAs(ada, "own", { ...call, ...answersTo(first) });
    assert.deepEqual(Object.keys(second.inputRequests), ["sure"]);
    const early = await callAs(ada, "own", { ...call, ...answersTo(first) });
    assert.match(textOf(early), /has been used/, "without an answer to what the call itself asked");
    const answered = { ...call, ...answersTo(second, { action: "accept", content: { sure: true } }) };
    assert.equal(textOf(await callAs(ada, "own", answered)), 'b: true, ["sure"]');
    assert.match(textOf(await callAs(ada, "own", answered)), /has been used/);
  });

  it("asks when a function of another tool leads to it", async () => {
    const call = { name: "around", arguments: { path: "c" } };
    const asked = await callAs(ada, "own", call);
    assert.equal(asked.resultType, "input_required", JSON.stringify(asked));
    assert.equal(textOf(await callAs(ada, "own", { ...call, ...answersTo(asked) })), "wrote nothing to c");
  });

  async function save(entry: object): Promise<string> {
    const text = JSON.stringify({ upstream: files, ...entry });
    await withStatus(200, apiOf(berth).put("/entries/files", text, bearer(admin)));
    return (await summaryOf("files")).release;
  }

  it("asks in an earlier release, whose entry did not say so", async () => {
    const args = { path: join(folder, "earlier.txt"), content: "" };
    const open = await save({ description: "Open" });
    const done = await callAs(ada, "files", { name: "write_file", arguments: args });
    assert.ok(existsSync(args.path), textOf(done));
    rmSync(args.path);
    const asking = { auto_discover: true, tools: { store: { function: "write_file" } }, consent: ["store"] };
    assert.notEqual(await save(asking), open);
    const earlier = await callAs(ada, `files@${open}`, { name: "write_file", arguments: args });
    assert.equal(earlier.resultType, "input_required", JSON.stringify(earlier));
    assert.ok(!existsSync(args.path));
  });

  it("warns of a name that no tool of the server has", async () => {
    await save({ auto_discover: true, tools: { store: { function: "write_file" } }, consent: ["write_fil"] });
    assert.match(JSON.stringify((await summaryOf("files")).problems), /names \\"write_fil\\"/);
  });
});

describe("the limits of consents", () => {
  async function start(t: TestContext, env: Record<string, string>) {
    const mcps = { own: { definition: "own.ts", consent: ["*"] } };
    const berth = await berthFor(t, { texts: { "own.ts": OWN }, mcps, env });
    const call = async (params: object): Promise<Any> => {
      const all = { name: "write", arguments: { path: "a" }, _meta: metaOf(CAN), ...params };
      return (await modern(`${berth.url}/mcp/own`, "tools/call", all)).body.result;
    };
    const records = (outcome: string, count = 1): Promise<Any[]> =>
      until(async () => {
        const { body } = await apiOf(berth).send("GET", `/audit?kind=consent&outcome=${outcome}`);
        return body.records.length >= count ? body.records : undefined;
      });
    return { call, records };
  }

  it("consentMs: refuses one that comes too late, which is recorded as expired", async (t) => {
    const { call, records } = await start(t, { BERTH_CONSENT_MS: "1" });
    const { requestState, inputResponses } = answersTo(await call({}));
    for (const answered of [{ requestState, inputResponses }, { inputResponses }]) {
      assert.match(textOf(await call(answered)), /has expired/);
    }
    assert.equal((await records("refused"))[0].reason, "expired");
  });

  it("cut what the user is shown, and only count the questions of a flood, but record each consent", async (t) => {
    const env = { BERTH_CONSENT_CHARACTERS: "100", BERTH_AUDIT_CONSENTS_PER_MINUTE: "2" };
    const { call, records } = await start(t, env);
    const args = { path: "a", content: "x".repeat(1_000) };
    let asked: Any;
    for (let at = 0; at < 4; at++) asked = await call({ arguments: args });
    const [{ params }] = Object.values<Any>(asked.inputRequests) as [Any];
    assert.match(params.message, /"content": "x+\[… cut here: 1002 characters in all …\]x+"\n"path": "a"/);
    assert.ok(!params.message.includes("x".repeat(100)));
    await call({ arguments: args, ...answersTo(asked) });
    assert.equal((await records("granted")).length, 1);
    assert.equal((await records("asked", 2)).length, 2);
  });
});
