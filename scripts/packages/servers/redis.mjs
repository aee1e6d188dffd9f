import { createServer } from "node:net";

/** Speaks as much of Redis' protocol (RESP2) as a client needs to keep texts, count, expire, and subscribe. */
export function redisServer() {
  const kept = new Map();
  const listeners = new Map();
  const commands = {
    INFO: () => "redis_version:7.0.0\r\nloading:0\r\n",
    SELECT: () => OK,
    CLIENT: () => OK,
    PING: () => "PONG",
    SET: (_socket, key, value) => (kept.set(key, value), OK),
    GET: (_socket, key) => kept.get(key) ?? null,
    INCR: (_socket, key) => (kept.set(key, String(Number(kept.get(key) ?? 0) + 1)), Number(kept.get(key))),
    SUBSCRIBE(socket, channel) {
      listeners.set(channel, [...(listeners.get(channel) ?? []), socket]);
      return ["subscribe", channel, 1];
    },
    PUBLISH(_socket, channel, text) {
      const all = listeners.get(channel) ?? [];
      for (const listener of all) listener.write(written(["message", channel, text]));
      return all.length;
    },
    QUIT: () => OK,
  };
  return createServer((socket) => {
    let rest = Buffer.alloc(0);
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let read; (read = commandIn(rest)); rest = rest.subarray(read.length)) {
        const [name, ...args] = read.words;
        const carryOut = commands[name.toUpperCase()];
        socket.write(carryOut ? written(carryOut(socket, ...args)) : `-ERR unknown command '${name}'\r\n`);
      }
    });
  });
}

const OK = Symbol("OK");

function written(value) {
  if (value === OK) return "+OK\r\n";
  if (value === null) return "$-1\r\n";
  if (typeof value === "number") return `:${value}\r\n`;
  if (Array.isArray(value)) return `*${value.length}\r\n${value.map(written).join("")}`;
  return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
}

/** The first command, an array of texts with their lengths; undefined while it is not whole. */
function commandIn(bytes) {
  let at = 0;
  const line = () => {
    const end = bytes.indexOf("\r\n", at);
    if (end === -1) return undefined;
    const text = bytes.toString("utf8", at + 1, end);
    at = end + 2;
    return Number(text);
  };
  const count = line();
  const words = [];
  for (let index = 0; index < (count ?? 0); index++) {
    const length = line();
    if (length === undefined || at + length + 2 > bytes.length) return undefined;
    words.push(bytes.toString("utf8", at, at + length));
    at += length + 2;
  }
  return count === undefined ? undefined : { words, length: at };
}
