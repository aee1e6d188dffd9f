import { connect, type Socket, type TcpNetConnectOpts } from "node:net";
import { clock, type Timer } from "../lib/clock.ts";
import type { TenantSockets } from "./tenant-sockets.ts";

/**
 * The connection to a host. All that it sends is read into one and the same buffer: a new one for each piece costs the
 * relay a third of its time. Nothing is read before somebody hears it.
 */
export class Outside {
  readonly socket: Socket;
  /** Is given the buffer until it returns; false keeps it, and nothing is read until the socket is resumed. */
  onRead: (bytes: Uint8Array) => boolean = () => false;

  constructor(how: TcpNetConnectOpts) {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const callback = (count: number): boolean => this.onRead(buffer.subarray(0, count));
    this.socket = connect({ ...how, onread: { buffer, callback } });
    this.socket.pause();
  }
}

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
  constructor(inside: Socket, host: Outside, tenant: TenantSockets, onEnd: (why: string | undefined) => void) {
    const outside = host.socket;
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
    const send = this.#carry(inside, outside, (bytes) => tenant.send(bytes));
    inside.on("data", (chunk: Buffer) => {
      if (!send(chunk)) inside.pause();
    });
    host.onRead = this.#carry(outside, inside, (bytes) => tenant.receive(bytes));
    outside.resume();
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

  /** Returns what hands one piece on, and then tells whether `from` may be read on at once. */
  #carry(from: Socket, to: Socket, count: (bytes: number) => number): (bytes: Uint8Array) => boolean {
    let isFull = false;
    let rest: Timer | undefined;
    const onWritten = (): void => {
      if (!isFull || to.writableLength > 0) return;
      isFull = false;
      if (!rest) from.resume();
    };
    from.on("end", () => to.end());
    from.on("close", () => rest?.clear());
    return (bytes) => {
      if (this.#isOver) return false;
      const restMs = count(bytes.length);
      to.write(bytes, onWritten);
      isFull = to.writableLength > 0;
      if (restMs > 0) {
        rest ??= clock.after(restMs, () => {
          rest = undefined;
          if (!isFull) from.resume();
        });
      }
      return !isFull && !rest;
    };
  }
}

/** How long a guest has to read why its connection was ended. */
const HEARD_MS = 200;
/** How long it may take to hand on what a guest had sent before it closed its side. */
const LEAVING_MS = 5_000;
/** Larger pieces cost hardly less, and each connection has a buffer of its own. */
const READ_BYTES = 64 * 1024;
