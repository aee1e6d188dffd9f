import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { call, callText, modern, MODERN_META } from "../support/berth.ts";
import { changing, open, tool } from "../support/hosted-upstreams.ts";
import { Nodes, NODES_TITLE, ON_WORKERS } from "../support/nodes.ts";
import { processesWith } from "../support/processes.ts";
import { rows } from "../support/rows.ts";
import { inSuite, temporaryFolder } from "../support/suite.ts";
import { until } from "../support/until.ts";
import { fixtures } from "../support/upstreams.ts";

const MARK = `one-upstream-${process.pid}`;
const counting = `mcp+node://${join(fixtures, "counting.mjs")}`;
const ASKABLE = { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } };
const ADA = { action: "accept", content: { name: "Ada" } };

/** A tool with a default that its server computes. */
function dated(date: string): JsonObject {
  const properties = { since: { type: "string", default: date } };
  return { name: "dated", description: "Counts from a day.", inputSchema: { type: "object", properties } };
}

describe(`an upstream of ${NODES_TITLE}`, () => {
  const shifting = changing({ after }, [tool("swap", "Changes."), tool("first", "It is there."), dated("2026-11-28")]);
  const folder = temporaryFolder();
  const written = `?arg=${encodeURIComponent(join(folder, "calls"))}`;
  const nodes = inSuite(() =>
    Nodes.start({
      env: { BERTH_UPSTREAM_PROGRAMS: "on" },
      texts: { "sees.sh": SEES, "reaches.ts": REACHES },
      mcps: {
        written: { upstream: `${counting}${written}&env.BERTH_TEST_MARK=${MARK}-written` },
        counting: { upstream: `${counting}?env.BERTH_TEST_MARK=${MARK}-counting` },
        secretive: {
          upstream: `${counting}?env.TOKEN=%24%7BTOKEN%7D&env.BERTH_TEST_MARK=${MARK}-secretive`,
          secrets: ["TOKEN"],
        },
        many: { upstream: `${counting}?env.BERTH_TEST_MARK=${MARK}-many`, runs: "everywhere" },
        shifting: { upstream: shifting.uri },
      },
    }),
  );

  const state = async (index: number, server: string): Promise<JsonObject> =>
    (await (await fetch(`${nodes.urls[index]}/api/servers/${server}/upstream`)).json()) as JsonObject;
  const textOf = (index: number, server: string, name: string, args: Record<string, unknown> = {}) =>
    callText(`${nodes.urls[index]}/mcp/${server}`, name, args);
  const next = (node: number): number => (node + 1) % nodes.urls.length;
  /** The node that runs a server, and another one. */
  const rolesOf = async (server: string): Promise<[owner: number, other: number]> => {
    const { owner } = await until(async () => {
      for (const index of nodes.urls.keys()) {
        const { node } = (await state(index, server)) as { node?: { isThis: boolean } };
        if (node?.isThis) return { owner: index };
      }
      return undefined;
    });
    return [owner, next(owner)];
  };

  // Its lease has to expire.
  if (process.env["BERTH_TEST_STOPPED_NODE"]) {
    it("is taken over from a node that is stopped, which gives it up when it continues", async () => {
      await textOf(0, "counting", "count");
      const [owner, other] = await rolesOf("counting");
      const before = await textOf(other, "counting", "pid");
      const waiting = textOf(other, "counting", "wait", { ms: 120_000 });
      await until(async () => (await state(owner, "counting"))["requests"] === 1);
      nodes.node(owner).child.kill("SIGSTOP");
      assert.match(await waiting, /^The upstream has ended; try again/);
      await until(async () => /^\d+$/.test(await textOf(other, "counting", "pid")));
      nodes.node(owner).child.kill("SIGCONT");
      await until(async () => (await textOf(owner, "counting", "pid")) === (await textOf(other, "counting", "pid")));
      assert.notEqual(await textOf(owner, "counting", "pid"), before);
      await until(() => processesWith(`${MARK}-counting`).length === 1);
    });
    return;
  }

  it("asks through one node and is answered through the other, in either era", async (t) => {
    const asked = { name: "ask", arguments: {}, _meta: ASKABLE };
    const ask = (server: string, index: number, more: object) =>
      modern(`${nodes.urls[index]}/mcp/${server}`, "tools/call", { ...asked, ...more });
    for (const server of ["counting", "many"]) {
      for (const first of nodes.urls.keys()) {
        const { requestState, inputRequests } = (await ask(server, first, {})).body.result;
        const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, ADA]));
        const { result } = (await ask(server, next(first), { requestState, inputResponses })).body;
        assert.match(result.content[0].text, /^\d+ for Ada$/);
      }
    }
    for (const mode of ["legacy", "auto"] as const) {
      // Each of its requests goes to the next node.
      const client = await open(t, nodes, "counting", mode);
      const result = await client.callTool({ name: "ask", arguments: {} });
      assert.match(JSON.stringify(result.content), /for Ada/);
    }
  });

  it("executes each call at most once when its node is killed, and acknowledges none that was lost", async () => {
    await textOf(0, "written", "count");
    const [owner] = await rolesOf("written");
    const ended = new Map<number, string>();
    let sent = 0;
    const over = new AbortController();
    const client = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const number = ++sent;
        const result = await call(`${nodes.url}/mcp/written`, "measure", { text: "", number }).catch(String);
        ended.set(number, result.content?.[0]?.text ?? JSON.stringify(result));
      }
    };
    const clients = Array.from({ length: 4 }, client);
    await until(() => sent > 100);
    await nodes.endNode(owner, "SIGKILL");
    const before = sent;
    await until(() => [...ended].some(([number, text]) => number > before && text === "0"), "calls succeed again");
    over.abort();
    await Promise.all(clients);
    const carriedOut = linesOf(join(folder, "calls")).flatMap((line) => /"number":(\d+)/.exec(line)?.[1] ?? []);
    assert.equal(new Set(carriedOut).size, carriedOut.length, "none was carried out twice");
    for (const [number, text] of ended) {
      if (text === "0") assert.ok(carriedOut.includes(String(number)), `${number} was carried out`);
    }
    await nodes.startNode(owner);
  });

  // Nothing else depends on how its nodes were started.
  if (ON_WORKERS) return;

  it("runs once, or on each node if its entry says so", async () => {
    assert.notEqual(await textOf(0, "many", "pid"), await textOf(1, "many", "pid"));
    assert.equal(await textOf(0, "counting", "pid"), await textOf(1, "counting", "pid"));
    assert.equal(processesWith(`${MARK}-counting`).length, 1);
    const [owner, other] = await rolesOf("counting");
    const pages = [owner, other].map(async (index) =>
      (await fetch(`${nodes.urls[index]}/mcp/meta/counting?tab=upstream`)).text(),
    );
    const { node } = (await state(owner, "counting")) as { node: { id: string } };
    const [here, there] = await Promise.all(pages);
    assert.ok(here!.includes(`${node.id}, which shows this`));
    assert.ok(there!.includes(node.id) && !there!.includes("which shows this"));
  });

  it("transfers long texts and reads resources through the other node", async () => {
    const [, other] = await rolesOf("counting");
    const text = "ä".repeat(1_000_000);
    assert.equal(await textOf(other, "counting", "measure", { text }), "1000000");
    assert.equal(await textOf(other, "counting", "long", { length: 1_000_000 }), text);
    const { body } = await modern(`${nodes.urls[other]}/mcp/counting`, "resources/read", { uri: "note://one" });
    assert.match(body.result.contents[0].text, /^read by \d+$/);
  });

  it("sends its messages and progress to a caller of the other node, and its updates to a listener there", async (t) => {
    const [owner, other] = await rolesOf("counting");
    const client = await open(t, { url: nodes.urls[other]! }, "counting", "legacy");
    const heard: unknown[] = [];
    client.setNotificationHandler("notifications/message", ({ params }) => void heard.push(params.data));
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => void heard.push(params.uri));
    await client.setLoggingLevel("debug");
    await client.subscribeResource({ uri: "note://one" });
    const onprogress = ({ progress }: { progress: number }): void => void heard.push(progress);
    await client.callTool({ name: "say", arguments: {} }, { onprogress });
    await until(() => heard.includes("a line") && heard.includes(1));
    // A node knows within a second for which tenants another one listens.
    await until(async () => {
      await textOf(owner, "counting", "touch", { uri: "note://one" });
      return heard.includes("note://one");
    });
  });

  it("is listed again on both nodes when it changes, and its changed tool is withheld", async () => {
    const listed = async (index: number): Promise<string[]> =>
      rows((await modern(`${nodes.urls[index]}/mcp/shifting`, "tools/list")).body.result?.tools ?? [], "name");
    for (const index of nodes.urls.keys()) await textOf(index, "shifting", "first");
    const now = [tool("first", "It is another."), dated("2026-11-29"), tool("second", "It is new.")];
    shifting.offerNext([tool("swap", "Changes."), ...now]);
    await textOf(0, "shifting", "swap");
    // The node that does not run it has listed the tool with its former default.
    for (const index of nodes.urls.keys())
      assert.equal(await textOf(index, "shifting", "dated"), "called Counts from a day.");
    for (const index of nodes.urls.keys())
      await until(async () => String(await listed(index)) === "swap,dated,second", `node ${index} lists what is new`);
    for (const index of nodes.urls.keys())
      assert.match(await textOf(index, "shifting", "first"), /The upstream has changed/);
  });

  it("receives another secret, and ends with its entry, at whichever node that is changed", async () => {
    const apis = nodes.urls.map((url) => apiOf({ url }));
    await apis[0]!.send("PUT", "/secrets/TOKEN", { value: "1 is the first value of it" });
    await until(async () => (await textOf(0, "secretive", "token")) === "token: 1 ");
    const [owner, other] = await rolesOf("secretive");
    assert.equal(await textOf(other, "secretive", "token"), "token: 1 ");
    await apis[other]!.send("PUT", "/secrets/TOKEN", { value: "2 is the second value of it" });
    await until(async () => (await textOf(other, "secretive", "token")) === "token: 2 ");
    assert.equal(await textOf(owner, "secretive", "token"), "token: 2 ");
    const { status, body } = await apis[other]!.remove("/entries/secretive");
    assert.ok(status < 300, JSON.stringify(body));
    await until(() => processesWith(`${MARK}-secretive`).length === 0);
  });

  it("cannot be called by guests, which do not see the sockets of nodes", async () => {
    const sockets = readdirSync(tmpdir())
      .filter((name) => name.startsWith("berth-work-"))
      .flatMap((name) => entriesOf(join(tmpdir(), name)).filter((path) => path.includes("/node-")))
      .map((path) => join(path, "calls"));
    assert.ok(sockets.length >= 2);
    for (const path of sockets) {
      assert.equal(await textOf(0, "sees", "sees", { path }), "nothing\n");
      assert.match(await textOf(0, "reaches", "reaches", { path }), /^not reached/);
    }
  });
});

const SEES = `#!/bin/sh
# @param {string} path - Where to look.
if [ -e "$path" ]; then echo it; else echo nothing; fi
`;

const REACHES = `
import { connect } from "node:net";

export function reaches(path: string): Promise<string> {
  return new Promise((resolve) => {
    connect(path, () => resolve("reached")).on("error", ({ message }) => resolve("not reached: " + message));
  });
}
`;

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

function linesOf(file: string): string[] {
  return readFileSync(file, "utf8").trim().split("\n");
}
