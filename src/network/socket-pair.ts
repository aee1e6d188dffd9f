import type { Socket } from "node:net";
import type { TenantSockets } from "./tenant-sockets.ts";

/**
 * A guest's connection and the one outside that belongs to it. What either sends goes to the other as fast as the other
 * takes it; the end of either direction is passed on, after all that came before it.
 */
export class SocketPair {
  readonly #inside: Socket;
  readonly #outside: Socket;
  readonly #onEnd: (why: string | undefined) => void;
  #leaving: NodeJS.Timeout | undefined;
  #isOver = false;

  /** `onEnd` is called once: with the reason where either side has not heard all that the other said. */
  constructor(inside: Socket, outside: Socket, tenant: TenantSockets, onEnd: (why: string | undefined) => void) {
    this.#inside = inside;
    this.#outside = outside;
    this.#onEnd = onEnd;
    let open = 2;
    for (const socket of [inside, outside]) {
      socket.on("error", (error: NodeJS.ErrnoException) => this.#onError(socket, error));
      socket.on("close", () => {
        if (--open === 0) this.end();
      });
    }
    this.#carry(inside, outside, (bytes) => tenant.send(bytes));
    this.#carry(outside, inside, (bytes) => tenant.receive(bytes));
  }

  /** Nothing flows from now on. The guest's side is left open for a moment, so that the guest hears the reason first. */
  end(why?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#leaving);
    this.#outside.destroy();
    if (why === undefined) this.#inside.destroy();
    else {
      this.#inside.pause();
      setTimeout(() => this.#inside.destroy(), HEARD_MS);
    }
    this.#onEnd(why);
  }

  /** The guest has closed its side: what it had sent before still goes out, within a while. */
  leave(): void {
    if (this.#isOver || this.#leaving) return;
    this.#leaving = setTimeout(() => this.end(), LEAVING_MS);
    this.#outside.pause();
    if (this.#outside.writableFinished) this.end();
    else this.#outside.once("finish", () => this.end());
  }

  #onError(socket: Socket, { code = "ECONNRESET" }: NodeJS.ErrnoException): void {
    // Nobody reads what still comes for a guest that has left.
    if (socket === this.#inside && this.#leaving) return;
    this.end(socket === this.#outside ? code : undefined);
  }

  #carry(from: Socket, to: Socket, count: (bytes: number) => number): void {
    let isFull = false;
    let rest: NodeJS.Timeout | undefined;
    from.on("data", (chunk: Buffer) => {
      if (this.#isOver) return;
      const restMs = count(chunk.length);
      isFull = !to.write(chunk);
      if (restMs > 0) {
        rest ??= setTimeout(() => {
          rest = undefined;
          if (!isFull) from.resume();
        }, restMs);
      }
      if (isFull || rest) from.pause();
    });
    to.on("drain", () => {
      isFull = false;
      if (!rest) from.resume();
    });
    from.on("end", () => to.end());
    from.on("close", () => clearTimeout(rest));
  }
}

/** How long a guest has to read why its connection was ended. */
const HEARD_MS = 200;
/** How long it may take to hand on what a guest had sent before it closed its side. */
const LEAVING_MS = 5_000;
