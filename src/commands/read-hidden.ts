import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";

/**
 * A text that nobody may see: typed at the terminal without echo, else all of standard input without one final newline.
 * Undefined when the person gives up (Ctrl-C, Ctrl-D).
 */
export async function readHidden(prompt: string): Promise<string | undefined> {
  if (process.stdin.isTTY) return typed(prompt);
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}

const [CTRL_C, CTRL_D, BACKSPACE, DELETE] = ["\u0003", "\u0004", "\b", "\u007f"];

function typed(prompt: string): Promise<string | undefined> {
  const { stdin } = process;
  stdin.setRawMode(true);
  stdin.resume();
  return new Promise((resolve) => {
    const decoder = new StringDecoder("utf8");
    let text = "";
    const end = (given: string | undefined): void => {
      stdin.off("data", take).pause();
      stdin.setRawMode(false);
      process.stderr.write("\n");
      resolve(given);
    };
    const take = (chunk: Buffer): void => {
      // Arrow keys send sequences that are no text.
      for (const character of stripVTControlCharacters(decoder.write(chunk))) {
        if (character === CTRL_C || character === CTRL_D) return end(undefined);
        if (character === "\r" || character === "\n") return end(text);
        if (character === BACKSPACE || character === DELETE) text = Array.from(text).slice(0, -1).join("");
        else if (!/\p{Cc}/u.test(character)) text += character;
      }
    };
    stdin.on("data", take);
    // Fast typing must not be shown either.
    process.stderr.write(prompt);
  });
}
