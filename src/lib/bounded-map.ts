/** Stores entries of a total weight of at most `max`, and drops the least recently set to make room for new ones. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;
  readonly #weigh: (value: Value) => number;
  #weight = 0;

  /** By default each entry weighs 1. */
  constructor(max: number, weigh: (value: Value) => number = () => 1) {
    super();
    this.#max = max;
    this.#weigh = weigh;
  }

  /** An entry that is set again counts as new. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    this.#weight += this.#weigh(value);
    while (this.#weight > this.#max) this.delete(this.keys().next().value!);
    return this;
  }

  override delete(key: Key): boolean {
    if (this.has(key)) this.#weight -= this.#weigh(this.get(key)!);
    return super.delete(key);
  }

  override clear(): void {
    super.clear();
    this.#weight = 0;
  }
}
