import { connect, type Socket, type TcpNetConnectOpts } from "node:net";
import { clock, type Timer } from "../lib/clock.ts";
import type { TenantSockets } from "./tenant-sockets.ts";

/**
 * The connection to a host. All that it sends is read into one buffer: a new one for each piece costs the relay a third
 * of its time. Nothing is read before there is a reader.
 */
export class HostConnection {
  readonly socket: Socket;
  /** Called with the buffer, which is reused after it returns; false stops reading until the socket is resumed. */
  onRead: (bytes: Uint8Array) => boolean = () => false;

  constructor(options: TcpNetConnectOpts) {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const callback = (count: number): boolean => this.onRead(buffer.subarray(0, count));
    this.socket = connect({ ...options, onread: { buffer, callback } });
    this.socket.pause();
  }
}

/**
 * A guest's connection and the one to the host. Bytes are forwarded in both directions as fast as the receiver takes
 * them; the end of either direction is forwarded after all that came before it.
 */
export class SocketPair {
  readonly #inside: Socket;
  readonly #outside: Socket;
  readonly #onEnd: (why: string | undefined) => void;
  #leaving: NodeJS.Timeout | undefined;
  #isOver = false;

  /** `onEnd` is called once: with the reason if either side has not received all that the other sent. */
  constructor(inside: Socket, host: HostConnection, tenant: TenantSockets, onEnd: (why: string | undefined) => void) {
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
    const send = this.#forward(inside, outside, (bytes) => tenant.send(bytes));
    inside.on("data", (chunk: Buffer) => {
      if (!send(chunk)) inside.pause();
    });
    host.onRead = this.#forward(outside, inside, (bytes) => tenant.receive(bytes));
    outside.resume();
  }

  /** Stops forwarding. The guest's side stays open for a moment, so that the guest receives the reason first. */
  end(why?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#leaving);
    this.#outside.destroy();
    if (why === undefined) this.#inside.destroy();
    else {
      this.#inside.pause();
      setTimeout(() => this.#inside.destroy(), REASON_MS);
    }
    this.#onEnd(why);
  }

  /** The guest has closed its side: what it sent before is still forwarded, for a limited time. */
  leave(): void {
    if (this.#isOver || this.#leaving) return;
    this.#leaving = setTimeout(() => this.end(), LEAVING_MS);
    this.#outside.pause();
    if (this.#outside.writableFinished) this.end();
    else this.#outside.once("finish", () => this.end());
  }

  #onError(socket: Socket, { code = "ECONNRESET" }: NodeJS.ErrnoException): void {
    // Nothing reads what still arrives for a guest that has left.
    if (socket === this.#inside && this.#leaving) return;
    this.end(socket === this.#outside ? code : undefined);
  }

  /** Returns a function that forwards one piece, and then returns true if `from` may be read on immediately. */
  #forward(from: Socket, to: Socket, count: (bytes: number) => number): (bytes: Uint8Array) => boolean {
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
const REASON_MS = 200;
/** The time limit for forwarding what a guest sent before it closed its side. */
const LEAVING_MS = 5_000;
/** Larger buffers are hardly cheaper, and each connection has one of its own. */
const READ_BYTES = 64 * 1024;
