import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { digestOfJson } from "../../../src/lib/canonical-json.ts";
import { apiOf } from "../../support/api.ts";
import { modern, MODERN_META, post, request, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { LegacyClient } from "../../support/legacy-client.ts";
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

const textOf = (result: Any): string => result?.content?.[0]?.text ?? JSON.stringify(result);

describe("a tool whose every call needs consent", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "berth-consents-")));
  const files = `${installed("@modelcontextprotocol/server-filesystem/dist/index.js")}?arg=${encodeURIComponent(folder)}`;
  let berth: TestBerth;
  let [ada, eve, admin] = ["", "", ""];
  let names = 0;

  before(async () => {
    berth = await startTestBerth({
      texts: { "own.ts": OWN },
      mcps: {
        files: { upstream: files, consent: ["write_file"] },
        own: { definition: "own.ts", consent: ["write", "later", "askingToo"] },
      },
      env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_ACCESS: "required" },
    });
    const token = async (can: string[]) => (await makeToken(berth, { can })).token;
    [ada, eve, admin] = [
      await token(["call", "read"]),
      await token(["call", "read"]),
      await token(["call", "read", "edit", "admin", "programs"]),
    ];
  });
  after(async () => {
    await berth?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Calls a tool in the modern era. */
  async function callAs(
    token: string,
    server: string,
    params: Record<string, unknown>,
    able: object = CAN,
  ): Promise<Any> {
    const _meta = {
      ...MODERN_META,
      "io.modelcontextprotocol/clientCapabilities": able,
      ...(params["_meta"] as object | undefined),
    };
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
    const saved = await apiOf(berth).put(`/entries/${server}`, JSON.stringify(entry), bearer(admin));
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
  }

  async function summaryOf(server: string): Promise<Any> {
    const { body } = await apiOf(berth).send("GET", "/servers", undefined, bearer(admin));
    return body.servers.find((each: Any) => each.name === server);
  }

  const answersTo = (asked: Any, answer: object = YES) => ({
    requestState: asked.requestState as string,
    inputResponses: Object.fromEntries(Object.keys(asked.inputRequests).map((key) => [key, answer])),
  });

  const kinds = [
    { what: "of a hosted package", server: "files", name: "write_file" },
    { what: "of an own definition", server: "own", name: "write" },
  ] as const;
  for (const { what, server, name } of kinds) {
    describe(what, () => {
      const fresh = () => ({ path: join(folder, `${server}-${++names}.txt`), content: "granted" });
      const isDone = (args: { path: string }, result: Any): boolean =>
        server === "files" ? existsSync(args.path) : textOf(result).startsWith("wrote ");

      it("is called once its user has consented, and says to the log what happened", async () => {
        const args = fresh();
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

      it("is not called a second time", async () => {
        const args = fresh();
        const asked = await callAs(ada, server, { name, arguments: args });
        await callAs(ada, server, { name, arguments: args, ...answersTo(asked) });
        rmSync(args.path, { force: true });
        for (const answered of [answersTo(asked), { inputResponses: answersTo(asked).inputResponses }]) {
          const again = await callAs(ada, server, { name, arguments: args, ...answered });
          assert.match(textOf(again), /has been used/);
          assert.ok(!isDone(args, again));
        }
        const refused = await audited(args, "refused", 2);
        assert.deepEqual(
          refused.map(({ reason }) => reason),
          ["used", "used"],
        );
      });

      it("is called once when two use the same answer at the same time", async () => {
        const args = fresh();
        const asked = await callAs(ada, server, { name, arguments: args });
        const both = await Promise.all(
          [1, 2].map(() => callAs(ada, server, { name, arguments: args, ...answersTo(asked) })),
        );
        assert.equal(both.filter((result) => /has been used/.test(textOf(result))).length, 1, JSON.stringify(both));
      });

      it("is not called with other arguments", async () => {
        const [args, other] = [fresh(), fresh()];
        const asked = await callAs(ada, server, { name, arguments: args });
        const { inputResponses } = answersTo(asked);
        for (const answered of [answersTo(asked), { inputResponses }]) {
          const result = await callAs(ada, server, { name, arguments: other, ...answered });
          assert.match(textOf(result), /other arguments/);
          assert.ok(!isDone(other, result));
        }
        const refused = await audited(other, "refused", 2);
        assert.deepEqual(
          refused.map(({ reason }) => reason),
          ["arguments", "arguments"],
        );
      });

      it("is not called by another principal", async () => {
        const args = fresh();
        const asked = await callAs(ada, server, { name, arguments: args });
        for (const answered of [answersTo(asked), { inputResponses: answersTo(asked).inputResponses }]) {
          const result = await callAs(eve, server, { name, arguments: args, ...answered });
          assert.match(textOf(result), /another principal/);
          assert.ok(!isDone(args, result));
        }
        const refused = await audited(args, "refused", 2);
        assert.deepEqual(
          refused.map(({ reason }) => reason),
          ["principal", "principal"],
        );
      });

      it("is not called in another release", async () => {
        const args = fresh();
        const asked = await callAs(ada, server, { name, arguments: args });
        await redeploy(server);
        for (const answered of [answersTo(asked), { inputResponses: answersTo(asked).inputResponses }]) {
          const result = await callAs(ada, server, { name, arguments: args, ...answered });
          assert.match(textOf(result), /another release/);
          assert.ok(!isDone(args, result));
        }
        const refused = await audited(args, "refused", 2);
        assert.deepEqual(
          refused.map(({ reason }) => reason),
          ["release", "release"],
        );
      });

      it("is not called when its user declines, answers without a yes, or cancels", async () => {
        for (const [answer, by] of [
          [{ action: "decline" }, "declined"],
          [{ action: "accept", content: { consent: false } }, "declined"],
          [{ action: "accept", content: {} }, "declined"],
          [{ action: "cancel" }, "cancelled"],
        ] as const) {
          const args = fresh();
          const asked = await callAs(ada, server, { name, arguments: args });
          const result = await callAs(ada, server, { name, arguments: args, ...answersTo(asked, answer) });
          assert.equal(result.isError, true);
          assert.ok(!isDone(args, result));
          assert.equal((await audited(args, "declined"))[0].by, by);
          const late = await callAs(ada, server, { name, arguments: args, ...answersTo(asked) });
          assert.match(textOf(late), /has been used/);
        }
      });

      for (const version of ["2025-06-18", "2025-11-25"]) {
        it(`asks in the session of a client of ${version}`, async () => {
          const url = `${berth.url}/mcp/${server}`;
          const client = new LegacyClient(url, version);
          const send = client.send.bind(client);
          client.send = (body, headers) => send(body, { ...headers, ...bearer(ada) });
          await client.initialize({ elicitation: {} });
          for (const [answer, done] of [
            [YES, true],
            [{ action: "decline" }, false],
          ] as const) {
            const args = fresh();
            const events = await client.call(name, args);
            const question = await events.nextMessage();
            assert.equal(question.method, "elicitation/create");
            assert.match(question.params.message, new RegExp(args.path));
            await client.answer(question.id, answer);
            const { result } = await events.nextMessage();
            assert.equal(isDone(args, result), done, textOf(result));
            await audited(args, done ? "granted" : "declined");
          }
          await (await fetch(url, { method: "DELETE", headers: { ...client.headers, ...bearer(ada) } })).text();
        });
      }

      it("is not called for a session whose question was open while the server changed", async () => {
        const url = `${berth.url}/mcp/${server}`;
        const client = new LegacyClient(url, "2025-11-25");
        const send = client.send.bind(client);
        client.send = (body, headers) => send(body, { ...headers, ...bearer(ada) });
        await client.initialize({ elicitation: {} });
        const args = fresh();
        const events = await client.call(name, args);
        const question = await events.nextMessage();
        await redeploy(server);
        await client.answer(question.id, YES);
        const { result } = await events.nextMessage();
        assert.match(textOf(result), /another release/);
        assert.ok(!isDone(args, result));
        const [{ reason, consent }] = (await audited(args, "refused")) as [Any];
        const [asked] = await audited(args, "asked");
        assert.deepEqual([reason, consent], ["release", asked.consent]);
        await (await fetch(url, { method: "DELETE", headers: { ...client.headers, ...bearer(ada) } })).text();
      });

      it("is called in an earlier release that was asked for by its CID, whatever the server is by then", async () => {
        const args = fresh();
        const { release } = await summaryOf(server);
        await redeploy(server);
        const pinned = `${server}@${release}`;
        const asked = await callAs(ada, pinned, { name, arguments: args });
        await redeploy(server);
        const result = await callAs(ada, pinned, { name, arguments: args, ...answersTo(asked) });
        assert.ok(isDone(args, result), textOf(result));
      });

      it("tells a client that cannot ask its user what to do", async () => {
        const args = fresh();
        const error = await callAs(ada, server, { name, arguments: args }, {});
        assert.equal(error.code, -32021);
        assert.match(error.message, /needs the consent of the user.*elicitation.*"consent"/);
        const legacy = await post(`${berth.url}/mcp/${server}`, request("tools/call", { name, arguments: args }), {
          "MCP-Protocol-Version": "2025-06-18",
          ...bearer(ada),
        });
        assert.match(textOf(legacy.body.result), /needs the consent of the user/);
        assert.ok(!isDone(args, legacy.body.result));
        const plain = await fetch(`${berth.url}/servers/${server}/${name}`, {
          method: "POST",
          headers: { "Content-Type": "application/json", ...bearer(ada) },
          body: JSON.stringify(args),
        });
        assert.notEqual(plain.status, 200);
        assert.match(await plain.text(), /needs the consent of the user/);
        assert.ok(!existsSync(args.path));
      });

      it("is asked about at POST /mcp too, under its name there", async () => {
        const args = fresh();
        const whole = `${server}.${name}`;
        const all = (params: object) => callAs(ada, "", { name: whole, arguments: args, ...params });
        const asked = await all({});
        assert.equal(asked.resultType, "input_required", JSON.stringify(asked));
        assert.ok(!isDone(args, asked));
        assert.ok(isDone(args, await all(answersTo(asked))));
      });

      it("takes no answer that a caller brings along, or makes up", async () => {
        const args = fresh();
        const asked = await callAs(ada, server, { name, arguments: args });
        const [key] = Object.keys(asked.inputRequests) as [string];
        const brought = { approve: true, [key]: YES, consent: YES };
        const _meta = { "computer.jp/tool": { answers: brought, options: brought } };
        const result = await callAs(ada, server, { name, arguments: args, _meta });
        assert.equal(result.resultType, "input_required", JSON.stringify(result));
        for (const made of ["consent:", "consent:1.AAAA", `${key}A`, `redirect.${key}`, "consent"]) {
          const answered = await callAs(ada, server, { name, arguments: args, inputResponses: { [made]: YES } });
          assert.ok(!isDone(args, answered), made);
        }
        assert.ok(!existsSync(args.path));
      });

      it("is not reached around the question by a native call, or by its release's own address", async () => {
        const args = fresh();
        const native = await post(`${berth.url}/mcp`, request(`${server}.${name}`, args), bearer(ada));
        assert.ok(Object.keys(native.body.result.inputRequests)[0]?.startsWith("consent:"));
        const { release } = await summaryOf(server);
        const pinned = await callAs(ada, `${server}@${release}`, { name, arguments: args });
        assert.equal(pinned.resultType, "input_required", JSON.stringify(pinned));
        assert.ok(!existsSync(args.path));
      });
    });
  }

  it("asks as a task, too, and goes on with the answer", async () => {
    const able = { ...CAN, extensions: { "io.modelcontextprotocol/tasks": {} } };
    const task = await callAs(ada, "own", { name: "later", arguments: { path: "a" } }, able);
    const _meta = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": able };
    const send = async (method: string, params: object): Promise<Any> => {
      const headers = { "Mcp-Name": task.taskId, ...bearer(ada) };
      return (await modern(`${berth.url}/mcp/own`, method, { taskId: task.taskId, ...params, _meta }, headers)).body
        .result;
    };
    const inStatus = (status: string) =>
      until(async () => {
        const found = await send("tasks/get", {});
        return found.status === status ? found : undefined;
      });
    const { inputRequests } = await inStatus("input_required");
    const [key] = Object.keys(inputRequests) as [string];
    await send("tasks/update", { inputResponses: { [key]: YES } });
    assert.equal(textOf((await inStatus("completed")).result), "wrote a");
    const cannot = await callAs(
      ada,
      "own",
      { name: "later", arguments: { path: "a" } },
      { extensions: able.extensions },
    );
    task.taskId = cannot.taskId;
    assert.match(JSON.stringify(await inStatus("failed")), /needs the consent of the user/);
  });

  it("does not start a task whose question was open while the server changed", async () => {
    const able = { ...CAN, extensions: { "io.modelcontextprotocol/tasks": {} } };
    const args = { path: `task-${++names}` };
    const task = await callAs(ada, "own", { name: "later", arguments: args }, able);
    const _meta = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": able };
    const send = async (method: string, params: object): Promise<Any> => {
      const headers = { "Mcp-Name": task.taskId, ...bearer(ada) };
      const { body } = await modern(`${berth.url}/mcp/own`, method, { taskId: task.taskId, ...params, _meta }, headers);
      return body.result;
    };
    const { inputRequests } = await until(async () => {
      const found = await send("tasks/get", {});
      return found.status === "input_required" ? found : undefined;
    });
    await redeploy("own");
    await send("tasks/update", { inputResponses: { [Object.keys(inputRequests)[0]!]: YES } });
    const ended = await until(async () => {
      const found = await send("tasks/get", {});
      return found.status === "completed" || found.status === "failed" ? found : undefined;
    });
    assert.match(JSON.stringify(ended), /another release/);
    assert.equal((await audited(args, "refused"))[0].reason, "release");
  });

  it("is what a bad state is excused for, and no call of a tool that needs no consent goes on with one", async () => {
    const bad = { requestState: "1.AAAA", inputResponses: { "consent:made-up": YES } };
    const args = { path: `bad-${++names}` };
    for (const [server, name] of [
      ["own", "write"],
      ["", "own.write"],
    ] as const) {
      assert.match(textOf(await callAs(ada, server, { name, arguments: args, ...bad })), /no question that was asked/);
    }
    for (const [server, name] of [
      ["own", "around"],
      ["", "own.around"],
      ["files", "list_directory"],
    ] as const) {
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
    const saved = await apiOf(berth).put("/entries/files", text, bearer(admin));
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
    return (await summaryOf("files")).release;
  }

  it("asks in an earlier release, whose entry did not say so", async () => {
    const args = { path: join(folder, "earlier.txt"), content: "" };
    const open = await save({ description: "Open" });
    const done = await callAs(ada, "files", { name: "write_file", arguments: args });
    assert.ok(existsSync(args.path), textOf(done));
    rmSync(args.path);
    const asking = await save({
      auto_discover: true,
      tools: { store: { function: "write_file" } },
      consent: ["store"],
    });
    assert.notEqual(asking, open);
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
  async function start(t: TestContext, env: Record<string, string>): Promise<{ berth: TestBerth; call: Caller }> {
    const mcps = { own: { definition: "own.ts", consent: ["*"] } };
    const berth = await startTestBerth({ texts: { "own.ts": OWN }, mcps, env });
    t.after(() => berth.close());
    const _meta = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": CAN };
    const call: Caller = async (params) =>
      (
        await modern(`${berth.url}/mcp/own`, "tools/call", {
          name: "write",
          arguments: { path: "a" },
          _meta,
          ...params,
        })
      ).body.result;
    return { berth, call };
  }

  async function records(berth: TestBerth, outcome: string, count = 1): Promise<Any[]> {
    return until(async () => {
      const { body } = await apiOf(berth).send("GET", `/audit?kind=consent&outcome=${outcome}`);
      return body.records.length >= count ? body.records : undefined;
    });
  }

  it("refuse one that comes too late, which is recorded as expired", async (t) => {
    const { berth, call } = await start(t, { BERTH_CONSENT_MS: "1" });
    const { requestState, inputRequests } = await call({});
    const inputResponses = { [Object.keys(inputRequests)[0]!]: YES };
    for (const answered of [{ requestState, inputResponses }, { inputResponses }]) {
      assert.match(textOf(await call(answered)), /has expired/);
    }
    assert.equal((await records(berth, "refused"))[0].reason, "expired");
  });

  it("cut what the user is shown, and only count the questions of a flood, but record each consent", async (t) => {
    const env = { BERTH_CONSENT_CHARACTERS: "100", BERTH_AUDIT_CONSENTS_PER_MINUTE: "2" };
    const { berth, call } = await start(t, env);
    const args = { path: "a", content: "x".repeat(1_000) };
    let asked: Any;
    for (let at = 0; at < 4; at++) asked = await call({ arguments: args });
    const [[key, { params }]] = Object.entries<Any>(asked.inputRequests) as [[string, Any]];
    assert.match(params.message, /"content": "x+\[… cut here: 1002 characters in all …\]x+"\n"path": "a"/);
    assert.ok(!params.message.includes("x".repeat(100)));
    await call({ arguments: args, requestState: asked.requestState, inputResponses: { [key]: YES } });
    assert.equal((await records(berth, "granted")).length, 1);
    assert.equal((await records(berth, "asked", 2)).length, 2);
  });
});

type Caller = (params: Record<string, unknown>) => Promise<Any>;
