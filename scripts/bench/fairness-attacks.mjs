import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { PROTOCOL_VERSION } from "./requests.mjs";

/**
 * The tenant that takes what it can get, as a process of its own: carries on one kind of attack from the bench's `go`
 * until its `pause`, then gives up its open requests, and replies with the number of its answers by status. It goes on
 * at once after each refusal.
 */

const [base, kind] = process.argv.slice(2);
let statuses = {};
let pause = new AbortController();

const meta = {
  "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

const attacks = {
  requests: () => repeat(64, () => call("echo", "echo", { message: "hello" })),
  guests: () => Promise.all([repeat(6, () => call("burn", "burn", {})), repeat(2, () => call("eat", "eat", {}))]),
  edits: () => repeat(4, save),
  children: () => repeat(8, (turn) => call(`child-${turn % 3}`, "echo", { message: "hello" })),
  starts: () => repeat(8, (turn) => call(`start-${turn % 4}`, "echo", { message: "hello" })),
  scripts: () => repeat(16, () => call("spin", "spin", {})),
  streams: () => repeat(100, listen),
};

/** Keeps `count` of them running, each begun anew when it ends. */
async function repeat(count, work) {
  const one = async (number) => {
    for (let turn = number; !pause.signal.aborted; turn++) {
      try {
        const status = await work(turn);
        statuses[status] = (statuses[status] ?? 0) + 1;
      } catch {
        if (pause.signal.aborted) return;
        statuses["cut off"] = (statuses["cut off"] ?? 0) + 1;
        await sleep(1);
      }
    }
  };
  await Promise.all(Array.from({ length: count }, (_, number) => one(number)));
}

async function call(server, name, args) {
  const response = await post(`/mcp/${server}`, "tools/call", { name, arguments: args }, { "Mcp-Name": name });
  const text = await response.text();
  return response.status === 200 && text.includes('"isError":true') ? "200 isError" : response.status;
}

let saves = 0;
async function save() {
  const body = `/** Says which. */\nexport function which(): string { return "value ${++saves} ${process.pid}"; }\n`;
  const headers = { "Content-Type": "text/plain", "If-Match": "*", "Berth-Allow-Breaking": "true" };
  const response = await fetch(`${base}/api/definitions/edited`, {
    method: "PUT",
    headers,
    body,
    signal: pause.signal,
  });
  await response.text();
  return response.status;
}

/** A stream that stays for a while. */
async function listen() {
  const gone = new AbortController();
  const filter = { notifications: { toolsListChanged: true } };
  const response = await post("/mcp/echo", "subscriptions/listen", filter, {}, gone.signal);
  if (response.status === 200) await sleep(200);
  gone.abort();
  return response.status;
}

function post(path, method, params, headers, gone) {
  const signal = gone ? AbortSignal.any([gone, pause.signal]) : pause.signal;
  return fetch(`${base}${path}`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": PROTOCOL_VERSION,
      "Mcp-Method": method,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }),
    signal,
  });
}

/** Resolves when it is told to pause. */
let underWay;
async function obey(message) {
  if (message === "go") {
    pause = new AbortController();
    setMaxListeners(0, pause.signal);
    statuses = {};
    underWay = attacks[kind]();
  } else {
    pause.abort();
    await underWay;
  }
  process.send({ statuses });
}

process.on("message", (message) => void obey(message));
process.on("disconnect", () => process.exit());
process.send({ ready: true });
