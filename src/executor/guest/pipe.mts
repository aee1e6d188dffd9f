import { Socket } from "node:net";

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
let onFrame: (frame: unknown[]) => void;
const partial: Buffer[] = [];

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
export function listen(listener: (frame: unknown[]) => void): void {
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

/** Writes what is waiting at once. */
export function flush(): void {
  if (outbox === "") return;
  const text = outbox;
  outbox = "";
  lastFlushAt = performance.now();
  socket.write(text);
}

function onRead(length: number, buffer: Uint8Array): boolean {
  const chunk = buffer as Buffer;
  let end = chunk.indexOf(NEWLINE);
  if (end < 0 || end >= length) {
    partial.push(Buffer.from(chunk.subarray(0, length)));
    return true;
  }
  let start = 0;
  if (partial.length > 0) {
    partial.push(Buffer.from(chunk.subarray(0, end)));
    const line = Buffer.concat(partial.splice(0)).toString();
    start = end + 1;
    onFrame(JSON.parse(line) as unknown[]);
    end = chunk.indexOf(NEWLINE, start);
  }
  while (end >= 0 && end < length) {
    onFrame(JSON.parse(chunk.toString("utf8", start, end)) as unknown[]);
    start = end + 1;
    end = chunk.indexOf(NEWLINE, start);
  }
  if (start < length) partial.push(Buffer.from(chunk.subarray(start, length)));
  return true;
}

function leave(): void {
  process.exit(0);
}
