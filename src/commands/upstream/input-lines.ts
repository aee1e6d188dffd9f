import type { Readable } from "node:stream";
import { usageFailure } from "./failure.ts";

export interface InputLine {
  readonly text: string;
  /** Counts non-empty lines, from 1. */
  readonly number: number;
}

const LINE_CHARACTERS_MAX = 16 * 1024 * 1024;

/** The non-empty lines of a stream, one by one; an endless line is refused before it fills the memory. */
export async function* inputLines(stream: Readable, signal: AbortSignal): AsyncGenerator<InputLine> {
  const stop = (): void => void stream.destroy();
  signal.addEventListener("abort", stop, { once: true });
  let number = 0;
  let rest = "";
  try {
    for await (const chunk of stream.setEncoding("utf8") as AsyncIterable<string>) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      for (const text of lines) if (text.trim() !== "") yield { text, number: ++number };
      if (rest.length > LINE_CHARACTERS_MAX) {
        throw usageFailure(`Record ${number + 1} is longer than ${LINE_CHARACTERS_MAX} characters.`);
      }
    }
    if (rest.trim() !== "") yield { text: rest, number: ++number };
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    stream.destroy();
  }
}
