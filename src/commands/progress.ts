import { printableLine } from "../lib/printable.ts";

/** A line on stderr that shows the progress: overwritten on a terminal; elsewhere only the first text is printed. */
export function progressLine(stream: NodeJS.WriteStream = process.stderr) {
  let shown = false;
  return {
    update(progress: string): void {
      const text = printableLine(progress);
      if (stream.isTTY) stream.write(`\r\u001b[K${text.slice(0, (stream.columns ?? 80) - 1)}`);
      else if (!shown) stream.write(`${text}\n`);
      shown = true;
    },
    /** Clears the line, so that the next output replaces it. */
    end(): void {
      if (shown && stream.isTTY) stream.write("\r\u001b[K");
    },
  };
}
