interface Numbered {
  id: number;
}

/**
 * The running calls by id; ids are never reused. A `Map` would do the same, but V8 keeps rebuilding one that changes
 * with every call, and each old table keeps the next one and its calls alive until a full garbage collection.
 */
export class CallTable<Call extends Numbered> {
  #slots: (Call | undefined)[] = Array.from({ length: 64 }, () => undefined);
  #lastId: number;
  #size = 0;

  /** Ids begin after `lastId`. */
  constructor(lastId = 0) {
    this.#lastId = lastId;
  }

  get size(): number {
    return this.#size;
  }

  /** Assigns the call its id. */
  add(call: Call): void {
    if (this.#size * 2 >= this.#slots.length) this.#grow();
    // A long call keeps its slot while others start and end around it.
    do this.#lastId += 1;
    while (this.#slots[this.#slotFor(this.#lastId)]);
    call.id = this.#lastId;
    this.#slots[this.#slotFor(call.id)] = call;
    this.#size += 1;
  }

  get(id: number): Call | undefined {
    const call = Number.isSafeInteger(id) && id >= 0 ? this.#slots[this.#slotFor(id)] : undefined;
    return call?.id === id ? call : undefined;
  }

  remove(call: Call): void {
    const slot = this.#slotFor(call.id);
    if (this.#slots[slot] !== call) return;
    this.#slots[slot] = undefined;
    this.#size -= 1;
  }

  all(): Call[] {
    return this.#slots.filter((call) => call !== undefined);
  }

  clear(): void {
    this.#slots.fill(undefined);
    this.#size = 0;
  }

  #slotFor(id: number): number {
    return id % this.#slots.length;
  }

  /** Ids that fall on different slots of a table still do so in one of twice the size. */
  #grow(): void {
    const calls = this.all();
    this.#slots = Array.from({ length: this.#slots.length * 2 }, () => undefined);
    for (const call of calls) this.#slots[this.#slotFor(call.id)] = call;
  }
}
