/** Calls under way. A `Set` would do the same, but one that changes with each call leaves long-lived garbage. */
export class UnderWay<Call> {
  readonly #calls: Call[] = [];

  get size(): number {
    return this.#calls.length;
  }

  /** The only call under way; undefined for none, and for several. */
  get only(): Call | undefined {
    return this.#calls.length === 1 ? this.#calls[0] : undefined;
  }

  add(call: Call): void {
    this.#calls.push(call);
  }

  remove(call: Call): void {
    const at = this.#calls.indexOf(call);
    if (at === -1) return;
    const last = this.#calls.pop()!;
    if (at < this.#calls.length) this.#calls[at] = last;
  }
}
