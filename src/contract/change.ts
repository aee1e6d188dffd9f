/** One difference between two contracts of a server, judged by its effect on callers. */
export interface ContractChange {
  readonly subject: "server" | "tool" | "resource" | "template" | "prompt" | "skill";
  /** The tool's or prompt's name, the resource's URI or template; empty for the server itself. */
  readonly name: string;
  /**
   * JSON pointer (RFC 6901) into the tool, such as `/inputSchema/properties/gene`; absent if the whole tool is meant.
   */
  readonly pointer?: string;
  /**
   * `breaking`: a call that worked may fail, or a result may lack what was promised. `compatible`: no caller notices.
   * `review`: only a person can tell, for example for a changed description.
   */
  readonly effect: "breaking" | "compatible" | "review";
  /** True when only text that people or models read differs, and nothing that a call must fit. */
  readonly isText?: true;
  /** A full sentence for a person. */
  readonly message: string;
  /** The new name, if the same thing was renamed. */
  readonly renamedTo?: string;
}

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
        const message = `There are ${count} more changes with the same effect (${effect}).`;
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
