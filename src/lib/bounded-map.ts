/** Keeps at most `max` entries: a further one takes the place of the one that was set longest ago. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  /** An entry that is set again counts as new. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#max) this.delete(this.keys().next().value!);
    return this;
  }
}
