import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { boot } from "../../src/commands/boot.ts";
import { call, makeImage, request } from "../support/berth.ts";
import { berth } from "../support/commands.ts";
import { compile } from "../support/compiler.ts";
import { descendants, isAlive } from "../support/processes.ts";
import { rows } from "../support/rows.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";
import { workersOf } from "../support/worker-nodes.ts";

/** Each worker has its own process for this code, so the numbers of two workers differ. */
const who = `
const own = Math.random();
/** Which worker serves. */
export const who = (): string => String(own);
/** Takes a while. */
export const slow = async (ms: number): Promise<string> => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return "done";
};
`;

describe("berth serve --workers", () => {
  let folder: string;
  let env: Record<string, string>;
  let served: ServeProcess;
  let said = "";

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-workers-"));
    const made = await makeImage(folder, { texts: { "who.ts": who } });
    env = { ...made, BERTH_LOG: "info" };
    await start();
  });
  afterEach(() => until(async () => workers().length === 2 && (await ids(8)).size === 2, "two workers serve"));
  after(async () => {
    await served.end("SIGTERM");
    await rm(folder, { recursive: true, force: true });
  });

  async function start(): Promise<void> {
    said = "";
    served = await ServeProcess.start(["--workers", "2"], { ...env, BERTH_IDLE_CONNECTION_MS: "1000" });
    served.child.stderr!.on("data", (text: string) => (said += text));
  }

  const workers = (): number[] => workersOf(served);

  const lines = (): Record<string, unknown>[] =>
    said.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Record<string, unknown>] : []));

  /** The workers that answer `count` calls, each over a connection of its own. */
  async function ids(count: number): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (let index = 0; index < count; index++) {
      const id = await callOver(new Agent(), "who").catch((error: Error) => error.message);
      found.set(id, (found.get(id) ?? 0) + 1);
    }
    return found;
  }

  /** The text of a result; rejects where anything goes wrong. */
  function callOver(agent: Agent, name: string, args: Record<string, unknown> = {}): Promise<string> {
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    return new Promise((resolve, reject) => {
      const asked = httpRequest(`${served.url}/mcp/who`, { method: "POST", agent, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.on("error", reject);
        response.on("end", () => {
          if (response.statusCode !== 200) return reject(new Error(`${response.statusCode}: ${text}`));
          const data = text.startsWith("{") ? text : (/^data: (\{.*\})$/m.exec(text)?.[1] ?? "{}");
          const { result } = JSON.parse(data) as { result?: { content: { text: string }[]; isError?: boolean } };
          if (!result || result.isError) return reject(new Error(text));
          resolve(result.content[0]!.text);
        });
      });
      asked.on("error", reject);
      asked.end(JSON.stringify(request("tools/call", { name, arguments: args })));
    });
  }

  it("is refused when one process has to serve, with the reason", async () => {
    const file = join(folder, "sources", "mcps.source.json");
    const refused: [readonly string[], Record<string, string>, RegExp][] = [
      [["serve", "--workers", "many"], {}, /BERTH_WORKERS must be a whole number from 0 to 32, not "many"/],
      [["serve", "--workers", "2"], { BERTH_EXPLORE: "on" }, /BERTH_EXPLORE=on .* be combined with BERTH_WORKERS/],
      [["serve", "--workers", "2", "--image", file], {}, /a tenant's file is served by one process/],
      [["stdio"], { BERTH_WORKERS: "2" }, /BERTH_WORKERS is for `berth serve`/],
      [["stdio", "--workers", "2"], {}, /unknown option '--workers'/],
    ];
    for (const [args, variables, reason] of refused) {
      const { code, stderr } = await berth(args, { env: { ...env, ...variables } });
      assert.match(stderr, reason);
      assert.notEqual(code, 0);
    }
  });

  it("shares the connections evenly", async () => {
    // A worker that is busy for a moment gets no connection meanwhile.
    await until(async () => String([...(await ids(20)).values()]) === "10,10");
  });

  it("replaces the workers at SIGHUP, with the current image and without a lost request", async () => {
    const before = workers();
    const over = new AbortController();
    let done = 0;
    const failed: unknown[] = [];
    const again = async (act: () => Promise<unknown>): Promise<void> => {
      for (; !over.signal.aborted; done++) await act().catch((error: unknown) => void failed.push(error));
    };
    const agent = new Agent({ keepAlive: true });
    const quiet = new Agent({ keepAlive: true });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${served.url}/mcp/who`)));
    const load = [
      ...Array.from({ length: 4 }, () => again(() => callOver(agent, "who"))),
      ...Array.from({ length: 4 }, (_, index) => again(() => callOver(quiet, "slow", { ms: 150 * index }))),
      again(() => callOver(new Agent(), "who")),
      again(() => client.callTool({ name: "slow", arguments: { ms: 20 } })),
    ];

    const sources = { from: join(folder, "sources"), out: env["BERTH_IMAGE_DIR"]!, quiet: true };
    const more = `/** New. */\nexport const added = (): string => "new";\n`;
    await writeFile(join(folder, "sources", "who.ts"), who + more);
    assert.equal(await boot(sources, async () => ({ compile, close: async () => {} })), 0);
    served.child.kill("SIGHUP");
    await until(() => lines().some(({ msg }) => msg === "the workers were replaced"), "the workers are replaced");
    over.abort();
    await Promise.all(load);
    await client.close();
    for (const each of [agent, quiet]) each.destroy();

    assert.deepEqual(failed, []);
    assert.ok(done > 100, `${done} calls`);
    assert.ok(workers().every((pid) => !before.includes(pid)));
    assert.ok(before.every((pid) => !isAlive(pid)));
    assert.equal((await call(`${served.url}/mcp/who`, "added")).content[0].text, "new");
  });

  it("replaces a worker that ends, with backoff when its replacement ends immediately", async () => {
    const from = lines().length;
    const ended = (): Record<string, unknown>[] =>
      lines()
        .slice(from)
        .filter(({ msg }) => msg === "a worker ended; another starts");
    let kept: number | undefined;
    for (let kills = 1; kills <= 3; kills++) {
      const victim = await until(() => (workers().length === 2 ? workers().find((pid) => pid !== kept) : undefined));
      kept ??= workers().find((pid) => pid !== victim);
      process.kill(victim, "SIGKILL");
      await until(() => ended().length === kills);
      assert.match(await callOver(new Agent(), "who"), /^0\.\d/, "the other one serves");
    }
    assert.deepEqual(rows(ended(), "inMs"), ["0", "500", "1000"]);
  });

  it("closes a connection that a killed worker had not accepted", async () => {
    const [victim] = workers() as [number];
    process.kill(victim, "SIGSTOP");
    const sockets: Socket[] = [];
    try {
      // The stopped worker is given one of them.
      for (let count = 0; count < 4; count++) {
        const socket = connect(Number(new URL(served.url).port), "127.0.0.1");
        await once(socket, "connect");
        socket.on("error", () => {}).write("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        sockets.push(socket.resume());
      }
      await until(() => sockets.filter((socket) => socket.closed).length === 3, "the other worker answers");
    } finally {
      process.kill(victim, "SIGKILL");
    }
    await until(() => sockets.every((socket) => socket.closed), "no client waits", 30_000);
  });

  it("adds up the figures of all workers, including ended ones", async () => {
    const figure = async (name: string): Promise<number> => {
      const text = await (await fetch(`${served.url}/metrics`)).text();
      const found = [...text.matchAll(new RegExp(`^${name}(?:\\{.*tool="who".*\\})? (\\d+)`, "gm"))];
      return found.reduce((sum, [, value]) => sum + Number(value), 0);
    };
    const calls = "berth_call_duration_seconds_count";
    await until(() => ids(2).then(({ size }) => size === 2));
    let before = 0;
    // A worker that does not report its figures in time is not waited for.
    await until(async () => {
      before = await figure(calls);
      await ids(6);
      return (await figure(calls)) === before + 6;
    });
    assert.equal(await figure('berth_info\\{version="[^"]+"\\}'), 1, "it is not added up");
    process.kill(workers()[0]!, "SIGKILL");
    await until(() => workers().length === 2);
    assert.ok((await figure(calls)) >= before + 6);
  });

  it("ends all workers at SIGTERM, after the calls in progress", async () => {
    const all = workers();
    const slow = Array.from({ length: 4 }, () => callOver(new Agent(), "slow", { ms: 5_000 }));
    await until(async () => {
      const text = await (await fetch(`${served.url}/metrics`)).text();
      return /^berth_calls_in_flight 4$/m.test(text);
    }, "the calls are under way");
    await served.end("SIGTERM");
    assert.deepEqual(await Promise.all(slow), ["done", "done", "done", "done"]);
    assert.equal(served.child.exitCode, 0);
    assert.ok(all.every((pid) => !isAlive(pid)));
    await start();
  });

  it("leaves no process behind when the primary process is killed", async () => {
    await ids(4);
    const all = descendants(served.child.pid);
    assert.ok(all.length > 4);
    await served.end("SIGKILL");
    await until(() => all.every((pid) => !isAlive(pid)), "all have ended");
    await start();
  });
});
