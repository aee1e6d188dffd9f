import { setTimeout as sleep } from "node:timers/promises";
import { PROTOCOL_VERSION } from "../bench/requests.mjs";

const CLIENTS_PER_TENANT = 4;
/** The pause between two requests of one client, so that the load is mixed and below the maximum. */
const PAUSE_MS = 10;

const meta = {
  "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "soak", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

const FILTER = { toolsListChanged: true };
/** How long a stream is held open. */
const STREAM_MS = 2_000;

/** The requests and their right answers; `every`: how seldom. */
const kinds = [
  call("steady", "echo", { text: "hello" }, (result) => textOf(result) === "hello"),
  call("steady", "slow", { ms: 30 }, (result) => textOf(result) === "done", 5),
  call("steady", "big", {}, (result) => textOf(result).length === 200_000, 20),
  call("steady", "count", { to: 1_000 }, (result) => textOf(result).includes("counted"), 20),
  call("steady", "fail", {}, (result) => result.isError && textOf(result).includes("as it should"), 10),
  call("fragile", "fine", {}, (result) => result.isError || textOf(result) === "fine", 5),
  call("fragile", "crash", {}, (result) => result.isError, 100),
  call("fragile", "eat", {}, (result) => result.isError, 400),
  call("words", "words", { text: "one two" }, (result) => textOf(result).trim() === "2", 30, true),
  call("every", "echo", { message: "hi" }, isEcho, 5),
  { server: "steady", method: "subscriptions/listen", params: { notifications: FILTER }, right: isOpen, every: 8 },
  { server: "steady", method: "tools/list", params: {}, right: (result) => result.tools.length === 5, every: 10 },
];

function call(server, name, args, right, every = 1, defaultOnly = false) {
  return { server, method: "tools/call", name, params: { name, arguments: args }, right, every, defaultOnly };
}

/**
 * Clients of all tenants at `bases`, until `signal`. A connection that breaks while Berth is killed is no fault; a
 * wrong answer is one.
 */
export async function runLoad(service, bases, signal, fault) {
  const counts = { right: 0, broken: 0 };
  const client = async (base, number) => {
    for (let round = number; !signal.aborted; round++) {
      for (const kind of kinds) {
        if (signal.aborted || round % kind.every !== 0 || (kind.defaultOnly && base !== "")) continue;
        const outcome = await (kind.right === isOpen ? hold : ask)(service, base, kind);
        if (outcome === undefined) {
          counts.broken += 1;
          await sleep(100);
        } else if (outcome === "") counts.right += 1;
        else fault(outcome);
        await sleep(PAUSE_MS);
      }
    }
  };
  await Promise.all(
    bases.flatMap((base) => Array.from({ length: CLIENTS_PER_TENANT }, (_, number) => client(base, number))),
  );
  return counts;
}

/** Resolves when each process has answered for each server: it has all parts then, and no longer needs the store. */
export async function callEach(service, bases) {
  const firsts = new Map(kinds.toReversed().map((kind) => [kind.server, kind]));
  for (const url of service.urls) {
    for (const base of bases) {
      for (const kind of firsts.values()) {
        if (kind.defaultOnly && base !== "") continue;
        while ((await ask({ ...service, url }, base, kind)) === undefined) await sleep(100);
      }
    }
  }
}

/** With several nodes, the one that has the upstream's process may have been killed. */
function isEcho(result) {
  return textOf(result) === "Echo: hi" || (result.isError && /try again/i.test(textOf(result)));
}

/** True if the first event of a stream says that it is open. */
function isOpen(text) {
  return text.includes("notifications/subscriptions/acknowledged");
}

/** Opens a stream, and silently leaves it after a while. Returns as `ask` does. */
async function hold({ url, pid }, base, { server, method, params, right }) {
  const gone = new AbortController();
  try {
    const { headers, body } = requestOf(method, undefined, params);
    const response = await fetch(`${url}${base}/mcp/${server}`, { method: "POST", headers, body, signal: gone.signal });
    const { value } = await response.body.pipeThrough(new TextDecoderStream()).getReader().read();
    if (isAway(response.status, value)) return undefined;
    if (response.status !== 200 || !right(value)) {
      return `${base}/mcp/${server} ${method} (process ${pid}): ${response.status} ${value.slice(0, 300)}`;
    }
    await sleep(STREAM_MS);
    return "";
  } catch {
    return undefined;
  } finally {
    gone.abort();
  }
}

/** Empty when the answer is right, a description when it is wrong, or undefined when there was none. */
async function ask({ url, pid }, base, { server, method, name, params, right }) {
  const { headers, body } = requestOf(method, name, params);
  let response, text;
  try {
    response = await fetch(`${url}${base}/mcp/${server}`, { method: "POST", headers, body });
    text = await response.text();
  } catch {
    return undefined;
  }
  if (isAway(response.status, text)) return undefined;
  if (/service is shutting down/.test(text)) return undefined;
  try {
    const { result } = JSON.parse(text);
    if (response.status === 200 && result && right(result)) return "";
  } catch {
    // Reported below.
  }
  return `${base}/mcp/${server} ${name ?? method} (process ${pid}): ${response.status} ${text.slice(0, 300)}`;
}

/**
 * Berth was killed and is starting, or takes up a restored store; haproxy says so in its own words, and a node says it of
 * the one that had an upstream's process.
 */
function isAway(status, text) {
  return (
    (status === 503 && /starting|no server is available|the node that/i.test(text)) ||
    (status === 502 && /bad gateway/i.test(text))
  );
}

function requestOf(method, name, params) {
  const headers = {
    "Content-Type": "application/json",
    Accept: method === "subscriptions/listen" ? "application/json, text/event-stream" : "application/json",
    "MCP-Protocol-Version": PROTOCOL_VERSION,
    "Mcp-Method": method,
    ...(name && { "Mcp-Name": name }),
  };
  return { headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }) };
}

function textOf(result) {
  return result.content?.map((item) => item.text ?? "").join("") ?? "";
}
