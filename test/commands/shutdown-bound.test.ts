import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { call, makeImage } from "../support/berth.ts";
import { cliFor } from "../support/commands.ts";
import { listening } from "../support/listening.ts";
import { keysOfAll } from "../support/postgres.ts";
import { processesWith } from "../support/processes.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

const mark = `shutdown-${process.pid}`;
const ENDLESS = `/** Never answers. */
export function never(): Promise<string> { return new Promise(() => {}); }
/** Is long. */
export function long(): string { return "x".repeat(2_000_000); }
`;
const TERMINATED = /this process did not end in time \(BERTH_SHUTDOWN_MS\) and terminates itself/;

describe("a shutdown", () => {
  const folder = temporaryFolder();
  let env: Record<string, string>;
  /** The environment of a process with a thread that is blocked for good, as by a name server that does not answer. */
  let stuck: Record<string, string>;
  before(async () => {
    const mcps = { stubborn: { upstream: hostile("ignores every ending", `&env.MARK=${mark}`) } };
    const limits = { BERTH_SHUTDOWN_MS: "2000", BERTH_UPSTREAM_END_MS: "600000", BERTH_UPSTREAM_PROGRAMS: "on" };
    env = { ...(await makeImage(folder, { texts: { "endless.ts": ENDLESS }, mcps })), ...limits, BERTH_LOG: "info" };
    const [fifo, opening] = [join(folder, "fifo"), join(folder, "open-fifo.cjs")];
    execFileSync("mkfifo", [fifo]);
    // Opening a named pipe that has no writer never returns.
    const open = `require("node:fs").open(${JSON.stringify(fifo)}, "r", () => {})`;
    writeFileSync(opening, `if (["serve", "stdio"].includes(process.argv[2])) ${open};`);
    stuck = { ...env, NODE_OPTIONS: `--require=${opening}` };
  });

  for (const workers of [0, 2]) {
    it(`ends though a thread is blocked, and logs what was open, with ${workers} workers`, async () => {
      const { child } = await ServeProcess.start(["--workers", String(workers)], stuck);
      const ended = endOf(child);
      child.kill("SIGTERM");
      const log = await ended;
      assert.match(log, TERMINATED);
      assert.match(log, /"open":\[[^\]]*"FSReqCallback"/);
    });
  }

  it("ends berth stdio though a thread is blocked", async () => {
    const child = spawn(process.execPath, [cliFor("stdio", stuck), "stdio", "endless"], {
      env: { ...process.env, ...stuck },
    });
    const ended = endOf(child);
    child.stdout.resume();
    child.stdin.end();
    assert.match(await ended, TERMINATED);
  });

  it("ends calls, unread answers and an upstream that ignores every signal, and leaves no process", async () => {
    const { child, url } = await ServeProcess.start([], env);
    const ended = endOf(child);
    await call(`${url}/mcp/stubborn`, "echo");
    const never = call(`${url}/mcp/endless`, "never").catch(() => undefined);
    const { port } = new URL(url);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "long" } });
    const head = `POST /mcp/endless HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const unread = connect(Number(port), "127.0.0.1").on("error", () => {});
    unread.write(head + body);
    await once(unread, "readable");
    child.kill("SIGTERM");
    const log = await ended;
    unread.destroy();
    await never;
    assert.match(log, /"calls":\d+,.*processes that still run are killed/);
    await until(() => processesWith(mark).length === 0);
  });

  it("ends a start that waits for a database", async () => {
    const silent = createServer(() => {});
    const port = await listening(silent);
    const connected = once(silent, "connection");
    const database = `postgres://berth@127.0.0.1:${port}/berth`;
    const patient = { ...env, ...keysOfAll(), BERTH_DATABASE: database };
    const child = spawn(process.execPath, [cliFor("serve", patient), "serve"], { env: { ...process.env, ...patient } });
    const ended = endOf(child);
    await connected;
    child.kill("SIGTERM");
    const log = await ended;
    silent.close();
    assert.match(log, TERMINATED);
  });
});

/** Everything that it wrote to stderr until it ended. */
async function endOf(child: ChildProcess): Promise<string> {
  let log = "";
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  await once(child, "close");
  return log;
}
