import { printableLine } from "../lib/printable.ts";

/** A line on stderr that shows the progress: a terminal's line is overwritten, elsewhere only the start is told. */
export interface ProgressLine {
  update(text: string): void;
  /** Clears the line, so that the next output stands in its place. */
  end(): void;
}

export function progressLine(stream: NodeJS.WriteStream = process.stderr): ProgressLine {
  let shown = false;
  return {
    update(said) {
      const text = printableLine(said);
      if (stream.isTTY) stream.write(`\r\u001b[K${text.slice(0, (stream.columns ?? 80) - 1)}`);
      else if (!shown) stream.write(`${text}\n`);
      shown = true;
    },
    end() {
      if (shown && stream.isTTY) stream.write("\r\u001b[K");
    },
  };
}
