import type { Readable, Writable } from "node:stream";

/** Where lines are written. While the other side is behind, nothing more is read from it. */
export class LineOutput {
  readonly #output: Writable;
  readonly #input: Readable;
  #room: Promise<void> | undefined;
  /** The other side reads nothing any more. */
  isBroken = false;

  constructor(output: Writable, input: Readable) {
    this.#output = output;
    this.#input = input;
  }

  /** Resolves when the other side has caught up; undefined while it is not behind. */
  get room(): Promise<void> | undefined {
    return this.#room;
  }

  /** Gives something to wait for when the other side is behind. */
  write(line: string): void | Promise<void> {
    if (this.isBroken) return;
    if (this.#output.write(`${line}\n`)) return;
    return (this.#room ??= this.#waitForRoom());
  }

  #waitForRoom(): Promise<void> {
    const input = this.#input;
    const output = this.#output;
    input.pause();
    return new Promise((resolve) => {
      const onRoom = (): void => {
        output.off("drain", onRoom).off("close", onRoom).off("error", onRoom);
        this.#room = undefined;
        if (!this.isBroken) input.resume();
        resolve();
      };
      output.on("drain", onRoom).on("close", onRoom).on("error", onRoom);
    });
  }
}
