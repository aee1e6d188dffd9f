const LF = 10;
const CR = 13;

/** Finds the ends of events in a stream (`text/event-stream`), however it is cut into pieces. */
export class EventEnds {
  #isLineEmpty = true;
  #isAfterReturn = false;

  /** The index after the empty line that ends the event at `from`; -1 if it does not end in this piece. */
  next(piece: Uint8Array, from: number): number {
    let [isLineEmpty, isAfterReturn] = [this.#isLineEmpty, this.#isAfterReturn];
    let end = -1;
    for (let at = from; at < piece.length && end < 0; at++) {
      const byte = piece[at];
      const isRestOfEnd = byte === LF && isAfterReturn;
      isAfterReturn = byte === CR;
      if (isRestOfEnd) continue;
      const isEnd = byte === LF || byte === CR;
      if (isEnd && isLineEmpty) end = at + 1;
      isLineEmpty = isEnd;
    }
    [this.#isLineEmpty, this.#isAfterReturn] = [isLineEmpty, isAfterReturn];
    return end;
  }
}

/**
 * The lines of an event that the client may see; "" for a comment. The server's reconnection delay and event id are
 * accepted only within reason. One character is one byte.
 */
export function eventText(lines: string): string {
  const seen = lines.split(/\r\n|\r|\n/).filter((line) => line !== "" && !line.startsWith(":") && !isLongId(line));
  return seen.length === 0 ? "" : `${seen.map(withinReason).join("\n")}\n\n`;
}

const RETRY = /^(?:\u00ef\u00bb\u00bf)?retry:(.*)$/;
const ID = /^(?:\u00ef\u00bb\u00bf)?id:/;
/** An id goes into a header, and is kept for as long as its stream may be resumed. */
const ID_BYTES = 1_024;
const RETRY_LEAST_MS = 1_000;
const RETRY_MOST_MS = 60_000;

function isLongId(line: string): boolean {
  return line.length > ID_BYTES && ID.test(line);
}

function withinReason(line: string): string {
  const wished = RETRY.exec(line)?.[1];
  if (wished === undefined) return line;
  return `retry: ${Math.min(Math.max(Number(wished) || 0, RETRY_LEAST_MS), RETRY_MOST_MS)}`;
}
