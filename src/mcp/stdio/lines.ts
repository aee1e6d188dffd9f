import type { Readable, Writable } from "node:stream";
import { LongText, type Text } from "../../lib/long-text.ts";

/** Writes lines. While the peer is too slow, nothing more is read from it. */
export class LineOutput {
  readonly #output: Writable;
  readonly #input: HeldInput;
  #drained: Promise<void> | undefined;
  isBroken = false;

  constructor(output: Writable, input: HeldInput) {
    this.#output = output;
    this.#input = input;
  }

  /** Resolves when the peer has caught up; undefined when it is not behind. */
  get drained(): Promise<void> | undefined {
    return this.#drained;
  }

  write(line: Text): void | Promise<void> {
    if (this.isBroken) return;
    if (this.#writeLine(line)) return;
    return (this.#drained ??= this.#waitForDrain());
  }

  #writeLine(line: Text): boolean {
    if (!(line instanceof LongText)) return this.#output.write(`${line}\n`);
    for (const piece of line.pieces) this.#output.write(piece);
    return this.#output.write("\n");
  }

  #waitForDrain(): Promise<void> {
    const input = this.#input;
    const output = this.#output;
    input.hold();
    return new Promise((resolve) => {
      const onDrain = (): void => {
        output.off("drain", onDrain).off("close", onDrain).off("error", onDrain);
        this.#drained = undefined;
        if (!this.isBroken) input.release();
        resolve();
      };
      output.on("drain", onDrain).on("close", onDrain).on("error", onDrain);
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
