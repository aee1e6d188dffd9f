import { Socket } from "node:net";
import { toGuest } from "./wire.mts";

/**
 * The guest's end of the pipe. It reads lines and writes frames in batches; the runner interprets them. The process
 * exits when the host closes the pipe.
 */
const READ_BYTES = 64 * 1024;
/** A longer batch is written immediately instead of at the end of the turn. */
const BATCH_UNITS = 64 * 1024;
/** A turn that has lasted this long writes immediately, so that progress of a busy function is seen while it works. */
const BATCH_MS = 5;
const NEWLINE = 10;

let outbox = "";
let lastFlushAt = 0;
let onFrame: (frame: unknown[], bytes?: Uint8Array) => void;
const partial: Buffer[] = [];
/** A frame whose bytes have not all arrived. */
let open: { readonly frame: unknown[]; readonly bytes: Uint8Array; received: number } | undefined;

const socket = new Socket({
  fd: 3,
  readable: true,
  writable: true,
  onread: { buffer: Buffer.allocUnsafe(READ_BYTES), callback: onRead },
} as ConstructorParameters<typeof Socket>[0]);
socket.on("error", exit);
socket.on("end", exit);
socket.on("close", exit);

/** Starts reading frames. */
export function listen(listener: typeof onFrame): void {
  onFrame = listener;
  socket.resume();
}

/** Writes one frame, without its newline, at the end of the turn. */
export function send(frame: string): void {
  if (outbox === "") setImmediate(flush);
  outbox += frame + "\n";
  if (outbox.length > BATCH_UNITS) flush();
}

/** Like `send`, but immediately if the turn has been long already. */
export function sendSoon(frame: string): void {
  send(frame);
  if (performance.now() - lastFlushAt > BATCH_MS) flush();
}

/** Writes all queued frames immediately. */
export function flush(): void {
  if (outbox === "") return;
  const text = outbox;
  outbox = "";
  lastFlushAt = performance.now();
  socket.write(text);
}

function onRead(length: number, buffer: Uint8Array): boolean {
  const chunk = (buffer as Buffer).subarray(0, length);
  for (let start = 0; start < length;) start = open ? takeBytes(chunk, start) : takeLine(chunk, start);
  return true;
}

/** Returns the position of the next line. */
function takeLine(chunk: Buffer, start: number): number {
  const end = chunk.indexOf(NEWLINE, start);
  if (end < 0) {
    partial.push(Buffer.from(chunk.subarray(start)));
    return chunk.length;
  }
  const line = partial.length === 0 ? chunk.toString("utf8", start, end) : completeLine(chunk.subarray(start, end));
  const frame = JSON.parse(line) as unknown[];
  if (frame[0] === toGuest.withBytes) {
    open = { frame: frame[2] as unknown[], bytes: new Uint8Array(frame[1] as number), received: 0 };
    deliverIfComplete();
  } else onFrame(frame);
  return end + 1;
}

function completeLine(rest: Buffer): string {
  return Buffer.concat([...partial.splice(0), rest]).toString();
}

function takeBytes(chunk: Buffer, start: number): number {
  const end = Math.min(chunk.length, start + open!.bytes.length - open!.received);
  open!.bytes.set(chunk.subarray(start, end), open!.received);
  open!.received += end - start;
  deliverIfComplete();
  return end;
}

function deliverIfComplete(): void {
  const { frame, bytes, received: came } = open!;
  if (came < bytes.length) return;
  open = undefined;
  onFrame(frame, bytes);
}

function exit(): void {
  process.exit(0);
}
