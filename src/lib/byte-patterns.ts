/**
 * Bytes to find. From the end of a match, `before` bytes backwards and `after` bytes forwards are hidden: it may be a
 * part of a longer value.
 */
export interface BytePattern {
  readonly bytes: Uint8Array;
  readonly before: number;
  readonly after: number;
}

/**
 * Finds any number of patterns in one pass over bytes (Aho–Corasick). Building is linear in the patterns, and a step takes
 * constant time on average, however many patterns share a prefix. A state is a prefix of a pattern; state 0 is empty.
 */
export class BytePatterns {
  /** The length of each state, and how much to hide when it is reached: nothing if no pattern ends there. */
  readonly depth: Int32Array;
  readonly before: Int32Array;
  readonly after: Int32Array;
  /** The longest proper suffix of each state that is a state. */
  readonly #suffix: Int32Array;
  readonly #byte: Int32Array;
  readonly #root = new Int32Array(256);
  /** Nearly all other states have one successor; further ones are in the map, by state and byte. */
  readonly #first: Int32Array;
  readonly #further = new Map<number, number>();
  #states = 1;

  constructor(patterns: readonly BytePattern[]) {
    const size = patterns.reduce((sum, { bytes }) => sum + bytes.length, 1);
    [this.depth, this.before, this.after] = [new Int32Array(size), new Int32Array(size), new Int32Array(size)];
    [this.#suffix, this.#byte, this.#first] = [new Int32Array(size), new Int32Array(size), new Int32Array(size)];
    const longestFirst = patterns.toSorted((one, other) => other.bytes.length - one.bytes.length);
    const states = new Int32Array(patterns.length);
    // One byte of each pattern at a time, since a state needs all shorter ones.
    for (let at = 0, open = patterns.length; open > 0; at++) {
      while (open > 0 && longestFirst[open - 1]!.bytes.length <= at) open--;
      for (let index = 0; index < open; index++) {
        const { bytes, before, after } = longestFirst[index]!;
        const state = this.#extend(states[index]!, bytes[at]!);
        states[index] = state;
        if (at === bytes.length - 1) this.#end(state, before, after);
      }
    }
  }

  /** The state after another byte. */
  next(state: number, byte: number): number {
    for (let at = state; ; at = this.#suffix[at]!) {
      const next = this.#successor(at, byte);
      if (next !== 0 || at === 0) return next;
    }
  }

  #successor(state: number, byte: number): number {
    if (state === 0) return this.#root[byte]!;
    const first = this.#first[state]!;
    return first === 0 || this.#byte[first] === byte ? first : (this.#further.get(state * 256 + byte) ?? 0);
  }

  #extend(state: number, byte: number): number {
    const existing = this.#successor(state, byte);
    if (existing !== 0) return existing;
    const suffix = state === 0 ? 0 : this.next(this.#suffix[state]!, byte);
    const created = this.#states++;
    this.#suffix[created] = suffix;
    this.#byte[created] = byte;
    this.depth[created] = this.depth[state]! + 1;
    this.#end(created, this.before[suffix]!, this.after[suffix]!);
    if (state === 0) this.#root[byte] = created;
    else if (this.#first[state] === 0) this.#first[state] = created;
    else this.#further.set(state * 256 + byte, created);
    return created;
  }

  #end(state: number, before: number, after: number): void {
    this.before[state] = Math.max(this.before[state]!, before);
    this.after[state] = Math.max(this.after[state]!, after);
  }
}
