/** One difference between two contracts of a server, classified by its effect on callers. */
export interface ContractChange {
  readonly subject: "server" | "tool" | "resource" | "template" | "prompt" | "skill";
  /** The tool's or prompt's name, the resource's URI or template; empty for the server itself. */
  readonly name: string;
  /** JSON pointer (RFC 6901) into the tool, such as `/inputSchema/properties/gene`; absent for the whole tool. */
  readonly pointer?: string;
  /**
   * `breaking`: a call that worked may fail, or a result may lack what was promised. `compatible`: no caller notices.
   * `review`: only a person can tell, for example for a changed description.
   */
  readonly effect: "breaking" | "compatible" | "review";
  /** True if only text that people or models read differs, and nothing that affects the validity of calls. */
  readonly isText?: true;
  /** A full sentence for a person. */
  readonly message: string;
  /** The new name, if the same thing was renamed. */
  readonly renamedTo?: string;
}

/** Selects the changes to show: the first of each effect of each server whose text fits. Counts the others. */
export class ChangeSelection {
  #units: number;

  constructor(units = UNITS_MAX) {
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
      const rest = more.get(effect);
      if (rest) rest.count += 1;
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

  /** The first of some names, as far as they fit as well. */
  names(all: readonly string[]): readonly string[] {
    const end = all.findIndex((name) => {
      this.#units -= name.length;
      return this.#units < 0;
    });
    return end === -1 ? all : all.slice(0, end);
  }
}

/** Per effect. */
const CHANGES_MAX = 500;
const UNITS_MAX = 512 * 1024;
