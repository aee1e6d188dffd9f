import type { CallShape } from "../discover/discovery.ts";
import type { GuestProcess } from "./guest-process.ts";
import { toGuest } from "./guest/wire.mts";

/** Shapes that a process remembers; beyond that they travel with their first call each time. */
const SHAPES_MAX = 4_096;

/** The call shapes of a program, by the numbers under which its process knows each. */
export class KnownShapes {
  readonly #process: GuestProcess;
  readonly #indexes = new Map<CallShape, number>();

  constructor(process: GuestProcess) {
    this.#process = process;
  }

  /** Tells the process of a shape that it does not know yet. */
  indexOf(shape: CallShape): number {
    const known = this.#indexes.get(shape);
    if (known !== undefined) return known;
    if (this.#indexes.size >= SHAPES_MAX) this.#indexes.clear();
    const index = this.#indexes.size;
    this.#indexes.set(shape, index);
    this.#process.send(JSON.stringify([toGuest.shape, index, shape]));
    return index;
  }
}
