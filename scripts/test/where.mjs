// Says where a Node process hangs: the stack of the running code, what it waits for, and what it has started. It opens
// the process's inspector (SIGUSR1), which also works where its event loop stands still.
import { existsSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "undici";

/** The time for the inspector to open, and for each of its answers. */
const ANSWER_MS = 10_000;
/** A waiting process runs no code within this time. */
const BUSY_MS = 1_000;
const FRAMES_MAX = 12;
const LINE_CHARS = 200;

/** The ids of a process's running children; none where there is no /proc. */
export function childrenOf(pid) {
  return readOr(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
}

export function commandOf(pid) {
  return readOr(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
}

/** Lines for a person. */
export async function whereIs(pid) {
  const state = /^State:\s+(.*)$/m.exec(readOr(`/proc/${pid}/status`))?.[1] ?? "gone";
  const lines = [`process ${pid}, ${state}`];
  try {
    lines.push(...(await ask(await openInspector(pid))));
  } catch (error) {
    lines.push(`it does not say where it is: ${error.message}`);
  }
  return [...lines, ...startedBy(pid, "")];
}

function startedBy(pid, indent) {
  const line = (child) => `${indent}it has started process ${child}: ${commandOf(child).slice(0, LINE_CHARS)}`;
  return childrenOf(pid).flatMap((child) => [line(child)].concat(startedBy(child, `${indent}  `)));
}

/** The address of its debugger. */
async function openInspector(pid) {
  process.kill(pid, "SIGUSR1");
  for (const end = Date.now() + ANSWER_MS; Date.now() < end; await sleep(50)) {
    for (const port of listensAt(pid)) {
      const signal = AbortSignal.timeout(BUSY_MS);
      const targets = await fetch(`http://127.0.0.1:${port}/json/list`, { signal })
        .then((answer) => answer.json())
        .catch(() => undefined);
      const url = targets?.[0]?.webSocketDebuggerUrl;
      if (url) return url;
    }
  }
  throw new Error(`its inspector did not open within ${ANSWER_MS} ms`);
}

/** Ports on the loopback address at which a process listens (`/proc/net/tcp`, where 0A is LISTEN). */
function listensAt(pid) {
  const folder = `/proc/${pid}/fd`;
  if (!existsSync(folder)) return [];
  const inodeOf = (fd) => /^socket:\[(\d+)\]$/.exec(linkOr(`${folder}/${fd}`))?.[1];
  const inodes = new Set(readdirSync(folder).map(inodeOf));
  return readOr("/proc/net/tcp")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === "0A" && inodes.has(fields[9]))
    .map((fields) => Number.parseInt(fields[1].split(":")[1], 16));
}

async function ask(url) {
  const socket = new WebSocket(url);
  const waiting = new Map();
  const scripts = new Map();
  let pause;
  const paused = new Promise((resolve) => (pause = resolve));
  socket.addEventListener("message", ({ data }) => {
    const { id, method, params, result } = JSON.parse(data);
    if (method === "Debugger.scriptParsed") scripts.set(params.scriptId, params.url);
    if (method === "Debugger.paused") pause(params.callFrames);
    waiting.get(id)?.(result);
  });
  await within(ANSWER_MS, new Promise((resolve) => socket.addEventListener("open", resolve)));
  const send = (method, params = {}) => {
    const id = waiting.size + 1;
    socket.send(JSON.stringify({ id, method, params }));
    return within(ANSWER_MS, new Promise((resolve) => waiting.set(id, resolve)));
  };
  try {
    await send("Debugger.enable");
    await send("Debugger.pause");
    const frames = await Promise.race([paused, sleep(BUSY_MS)]);
    // Otherwise the requested call itself would be what pauses.
    if (!frames) await send("Debugger.disable");
    const { result } = await send("Runtime.evaluate", { expression: `(${String(waitsFor)})()`, returnByValue: true });
    const stack = (frames ?? []).slice(0, FRAMES_MAX).map(({ functionName, location: { scriptId, ...at } }) => {
      const place = `${scripts.get(scriptId)}:${at.lineNumber + 1}:${at.columnNumber + 1}`;
      return `  at ${functionName || "<anonymous>"} (${place})`;
    });
    return [...(frames ? ["it is busy:", ...stack] : []), ...result.value];
  } finally {
    socket.close();
  }
}

/** Runs in the examined process. */
function waitsFor() {
  const counts = {};
  for (const name of process.getActiveResourcesInfo()) counts[name] = (counts[name] ?? 0) + 1;
  const named = Object.entries(counts).map(([name, count]) => (count > 1 ? `${name} × ${count}` : name));
  const tell = (handle) => {
    const name = handle.constructor?.name;
    if (name === "ChildProcess") return `it waits for the end of process ${handle.pid}: ${handle.spawnargs.join(" ")}`;
    if (name === "Server") return `it listens at ${JSON.stringify(handle.address())}`;
    if (name === "Socket" && handle.remotePort) {
      return `it has a connection from port ${handle.localPort} to port ${handle.remotePort}`;
    }
    return [];
  };
  return [`it waits for: ${named.join(", ") || "nothing"}`, ...process._getActiveHandles().flatMap(tell)];
}

async function within(ms, promise) {
  const late = new AbortController();
  const tooLate = sleep(ms, undefined, { signal: late.signal }).then(() => {
    throw new Error(`there was no answer within ${ms} ms`);
  });
  try {
    return await Promise.race([promise, tooLate]);
  } finally {
    tooLate.catch(() => {});
    late.abort();
  }
}

function readOr(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // It has gone, or there is no /proc.
  }
}

function linkOr(file) {
  try {
    return readlinkSync(file);
  } catch {
    return "";
  }
}
