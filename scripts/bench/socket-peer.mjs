import { connect, createServer } from "node:net";

/**
 * The other ends of the sockets part, each a process of its own. `flood`: a server that sends as many bytes as the first
 * line asks for, and ends. `drip`: likewise, but one byte at a time. `relay`: the
 * simplest relay there is, from a local socket to that server. `receive`: a client of either, which tells how long it
 * took.
 */

const CHUNK = Buffer.alloc(256 * 1024);
const [kind, ...args] = process.argv.slice(2);

if (kind === "flood" || kind === "drip") {
  const server = createServer((socket) => {
    socket.on("error", () => {}).setNoDelay(true);
    socket.once("data", (line) => {
      let left = Number(line.toString());
      const drip = () => {
        if (left-- <= 0 || socket.destroyed) return void socket.end();
        if (socket.write(CHUNK.subarray(0, 1))) setImmediate(drip);
        else socket.once("drain", drip);
      };
      if (kind === "drip") return drip();
      const send = () => {
        while (left > 0 && !socket.destroyed) {
          const chunk = left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK;
          left -= chunk.length;
          if (!socket.write(chunk)) return;
        }
        socket.end();
      };
      socket.on("drain", send);
      send();
    });
  });
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
  process.on("message", () => process.send({ port: server.address().port }));
} else if (kind === "relay") {
  const [path, port] = args;
  createServer((inside) => {
    const outside = connect(Number(port), "127.0.0.1");
    for (const socket of [inside, outside]) socket.on("error", () => {});
    inside.pipe(outside).pipe(inside);
  }).listen(path, () => process.send({ ready: true }));
} else {
  process.send({ ready: true });
  process.on("message", ({ path, port, bytes }) => {
    const startedAt = performance.now();
    let received = 0;
    const socket = path === undefined ? connect(port, "127.0.0.1") : connect(path);
    socket.on("data", (chunk) => (received += chunk.length));
    socket.on("error", (error) => process.send({ failed: error.message }));
    socket.on("end", () => process.send({ ms: performance.now() - startedAt, received }));
    socket.write(`${bytes}\n`);
  });
}
process.on("disconnect", () => process.exit());
