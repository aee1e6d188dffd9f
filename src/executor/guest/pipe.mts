import { Socket } from "node:net";
import { toGuest } from "./wire.mts";

/**
 * The guest's end of the pipe. It owns reading lines and writing frames in batches; what they mean is the runner's
 * business. When the host is gone, so is the process.
 */
const READ_BYTES = 64 * 1024;
/** A batch of this length leaves at once instead of waiting for the end of the turn. */
const BATCH_UNITS = 64 * 1024;
/** A turn that has lasted this long writes at once, so that progress of a busy function is seen while it works. */
const BATCH_MS = 5;
const NEWLINE = 10;

let outbox = "";
let lastFlushAt = 0;
let onFrame: (frame: unknown[], bytes?: Uint8Array) => void;
const partial: Buffer[] = [];
/** A frame whose bytes have not all come. */
let open: { readonly frame: unknown[]; readonly bytes: Uint8Array; came: number } | undefined;

const socket = new Socket({
  fd: 3,
  readable: true,
  writable: true,
  onread: { buffer: Buffer.allocUnsafe(READ_BYTES), callback: onRead },
} as ConstructorParameters<typeof Socket>[0]);
socket.on("error", leave);
socket.on("end", leave);
socket.on("close", leave);

/** Starts to listen. */
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

/** As `send`, and at once when the turn has been long already. */
export function sendSoon(frame: string): void {
  send(frame);
  if (performance.now() - lastFlushAt > BATCH_MS) flush();
}

/** Writes everything that waits at once. */
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

/** Returns where the next line begins. */
function takeLine(chunk: Buffer, start: number): number {
  const end = chunk.indexOf(NEWLINE, start);
  if (end < 0) {
    partial.push(Buffer.from(chunk.subarray(start)));
    return chunk.length;
  }
  const line = partial.length === 0 ? chunk.toString("utf8", start, end) : lineWith(chunk.subarray(start, end));
  const frame = JSON.parse(line) as unknown[];
  if (frame[0] === toGuest.withBytes) {
    open = { frame: frame[2] as unknown[], bytes: new Uint8Array(frame[1] as number), came: 0 };
    closeIfWhole();
  } else onFrame(frame);
  return end + 1;
}

function lineWith(rest: Buffer): string {
  return Buffer.concat([...partial.splice(0), rest]).toString();
}

function takeBytes(chunk: Buffer, start: number): number {
  const end = Math.min(chunk.length, start + open!.bytes.length - open!.came);
  open!.bytes.set(chunk.subarray(start, end), open!.came);
  open!.came += end - start;
  closeIfWhole();
  return end;
}

function closeIfWhole(): void {
  const { frame, bytes, came } = open!;
  if (came < bytes.length) return;
  open = undefined;
  onFrame(frame, bytes);
}

function leave(): void {
  process.exit(0);
}
