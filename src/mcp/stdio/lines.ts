import type { Readable, Writable } from "node:stream";
import { LongText, type Text } from "../../lib/long-text.ts";

/** Writes lines. While the other side is behind, nothing more is read from it. */
export class LineOutput {
  readonly #output: Writable;
  readonly #input: HeldInput;
  #room: Promise<void> | undefined;
  /** True when the other side no longer reads. */
  isBroken = false;

  constructor(output: Writable, input: HeldInput) {
    this.#output = output;
    this.#input = input;
  }

  /** Resolves when the other side has caught up; undefined when it is not behind. */
  get room(): Promise<void> | undefined {
    return this.#room;
  }

  /** Returns a promise to wait for when the other side is behind. */
  write(line: Text): void | Promise<void> {
    if (this.isBroken) return;
    if (this.#writeLine(line)) return;
    return (this.#room ??= this.#waitForRoom());
  }

  #writeLine(line: Text): boolean {
    if (!(line instanceof LongText)) return this.#output.write(`${line}\n`);
    for (const piece of line.pieces) this.#output.write(piece);
    return this.#output.write("\n");
  }

  #waitForRoom(): Promise<void> {
    const input = this.#input;
    const output = this.#output;
    input.hold();
    return new Promise((resolve) => {
      const onRoom = (): void => {
        output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
        this.#room = undefined;
        if (!this.isBroken) input.release();
        resolve();
      };
      output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
    });
  }
}

/** An input that pauses while anything holds it. */
export class HeldInput {
  readonly #input: Readable;
  #holds = 0;

  constructor(input: Readable) {
    this.#input = input;
  }

  hold(): void {
    if (this.#holds++ === 0) this.#input.pause();
  }

  release(): void {
    if (--this.#holds === 0) this.#input.resume();
  }
}
