import type { Server } from "node:http";
import type { Socket } from "node:net";

const IDLE_CHECK_MS = 50;

/**
 * The end of a server: takes no new connection, and resolves when the answers under way are written. It is to be made
 * before the server listens.
 */
export function createDrain(server: Server): () => Promise<void> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    const timer = setInterval(() => {
      // A connection whose answer has just been written counts as busy for as long as it could bring another request.
      server.closeIdleConnections();
      // One that never brought any counts as busy, too; browsers open such ones in advance.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    }, IDLE_CHECK_MS);
    await closed;
    clearInterval(timer);
  };
}
