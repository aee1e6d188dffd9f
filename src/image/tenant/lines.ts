/** One line of a file, without its end. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** Undefined for a line that is too long, none of which is kept. */
  readonly bytes: Uint8Array | undefined;
  /** False for the rest after the last line end. */
  readonly isWhole: boolean;
}

const NEWLINE = 10;

/** Splits pieces of input into lines, with at most one line in memory. */
export async function* linesOf(source: AsyncIterable<Uint8Array>, lineBytesMax: number): AsyncGenerator<Line> {
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const add = (part: Uint8Array): void => {
    length += part.length;
    if (length <= lineBytesMax) parts.push(part);
    else parts = [];
  };
  const take = (isWhole: boolean): Line => {
    const line = { number: number++, bytes: length <= lineBytesMax ? joined(parts) : undefined, isWhole };
    [parts, length] = [[], 0];
    return line;
  };

  for await (const piece of source) {
    let start = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, start)) {
      add(piece.subarray(start, end));
      yield take(true);
      start = end + 1;
    }
    if (start < piece.length) add(piece.subarray(start));
  }
  if (length > 0) yield take(false);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
