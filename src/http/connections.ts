import type { Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { TooManyRequests } from "../admission/refusals.ts";

const IDLE_CHECK_MS = 50;

/** One connection of a client. */
export class Connection {
  readonly #socket: Socket;
  /** Pipelined requests, which came before earlier ones were answered. */
  #ahead = 0;
  #isHeld = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** True when the request makes more than `most` pipelined ones on this connection. */
  isTooFarAhead(response: ServerResponse, most: number): boolean {
    this.#ahead += 1;
    response.once("close", () => (this.#ahead -= 1));
    return this.#ahead > most;
  }

  /**
   * Resolves when a refusal is to be sent; undefined when that is at once. The delay holds back a client that keeps
   * sending more than it may: its connection brings nothing more meanwhile. A connection that brings another request
   * all the same, or is one too many, is cut and never answered.
   */
  hold(error: unknown): Promise<void> | undefined {
    if (!(error instanceof TooManyRequests)) return undefined;
    const { refusals, data } = error;
    const retryMs = 1_000 * Number(data?.["retryAfterSeconds"]);
    const inMs = this.#isHeld ? undefined : refusals.next(performance.now(), retryMs);
    if (inMs === 0) return undefined;
    const socket = this.#socket;
    if (inMs === undefined) {
      socket.destroy();
      return new Promise(() => {});
    }
    this.#isHeld = true;
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        socket.off("close", end);
        this.#isHeld = false;
        refusals.told();
        if (!socket.destroyed) resolve();
      };
      const timer = setTimeout(end, inMs).unref();
      socket.on("close", end);
    });
  }
}

/** The open connections of a server. Create it before the server listens. */
export class Connections {
  /** Each answer is the last one of its connection. */
  isRetiring = false;
  readonly #server: Server;
  readonly #open = new Map<Socket, Connection>();

  constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      this.#open.set(socket, new Connection(socket));
      socket.once("close", () => this.#open.delete(socket));
    });
  }

  of(socket: Socket): Connection {
    return this.#open.get(socket) ?? new Connection(socket);
  }

  /**
   * Accepts no new connections, and resolves when those that are open have ended by themselves: after their last request,
   * or because they were quiet for long. Cutting a quiet one would lose what its client may just be sending.
   */
  retire(): Promise<void> {
    this.isRetiring = true;
    // That of the HTTP server cuts quiet connections.
    return new Promise((resolve) => NetServer.prototype.close.call(this.#server, () => resolve()));
  }

  /** Accepts no new connections, and resolves when the answers in progress are written. */
  async drain(): Promise<void> {
    const server = this.#server;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    const timer = setInterval(() => {
      // A connection whose answer has just been written counts as busy for as long as it could bring another request.
      server.closeIdleConnections();
      // A connection without any request counts as busy, too; browsers open such ones in advance.
      for (const socket of this.#open.keys()) if (socket.bytesRead === 0) socket.destroy();
    }, IDLE_CHECK_MS);
    await closed;
    clearInterval(timer);
  }
}
