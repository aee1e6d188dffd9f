import type { ContractChange } from "./change.ts";

/**
 * Selects the changes of one answer that a person can read: the first of each effect of each server, as far as their
 * text fits; the others are only counted.
 */
export class ToldChanges {
  #units: number;

  constructor(units = ROOM_UNITS) {
    this.#units = units;
  }

  of(changes: readonly ContractChange[]): readonly ContractChange[] {
    const counts = { breaking: 0, review: 0, compatible: 0 };
    const more = new Map<ContractChange["effect"], { readonly of: ContractChange; count: number }>();
    const first = changes.filter((change) => {
      const { effect, name, pointer = "", message, renamedTo = "" } = change;
      const units = name.length + pointer.length + message.length + renamedTo.length;
      if (++counts[effect] <= CHANGES_MAX && units <= this.#units) {
        this.#units -= units;
        return true;
      }
      const left = more.get(effect);
      if (left) left.count += 1;
      else more.set(effect, { of: change, count: 1 });
      return false;
    });
    return [
      ...first,
      ...Array.from(more, ([effect, { of, count }]): ContractChange => {
        const message = `There are ${count} more changes of which the same is to be said (${effect}).`;
        return { subject: of.subject, name: "", effect, message };
      }),
    ];
  }

  /** The first of some names, as far as they fit, too. */
  names(all: readonly string[]): readonly string[] {
    const end = all.findIndex((name) => {
      this.#units -= name.length;
      return this.#units < 0;
    });
    return end === -1 ? all : all.slice(0, end);
  }
}

/** For each effect. */
const CHANGES_MAX = 500;
const ROOM_UNITS = 512 * 1024;
