import { budgets } from "../budget.ts";
import type { Path } from "./walker.ts";

/** The objects that texts in the arguments become before the function is called. */
export type RevivedKind = "date" | "url";

export interface Revival {
  readonly kind: RevivedKind;
  readonly path: Path;
}

/**
 * Where `Date`s and `URL`s stand in the arguments. A schema cannot say it (they are strings there), so that the paths
 * are kept beside it. Recursive types have them at endless paths: those are listed level by level down to a limit.
 */
export class Revivals {
  /** Never changed in place, so that whoever keeps it has what was found by then. */
  #found: readonly Revival[] = [];
  readonly #references: { path: Path; start: Path }[] = [];

  add(kind: RevivedKind, path: Path): void {
    this.#found = [...this.#found, { kind, path }];
  }

  /** At `path` stands what was walked at `start` before. */
  repeat(path: Path, start: Path): void {
    this.#references.push({ path, start });
  }

  /** Remembers the state: the function that it gives returns to it. */
  mark(): () => void {
    const found = this.#found;
    const references = this.#references.length;
    return () => {
      this.#found = found;
      this.#references.length = references;
    };
  }

  get all(): readonly Revival[] {
    return this.#found;
  }

  /** For places that turn out to be undecidable. */
  forget(revivals: readonly Revival[]): void {
    this.#found = this.#found.filter((revival) => !revivals.includes(revival));
  }

  paths(wanted: RevivedKind): Path[] {
    const known = new Map(this.#found.filter(({ kind }) => kind === wanted).map(({ path }) => [keyOf(path), path]));
    const limit = known.size + budgets.recursiveRevivals;
    // What was found last is longest; a round adds one level of recursion, so that shallow paths come first.
    for (let last = [...known.values()]; last.length > 0 && known.size < limit;) {
      const next = last
        .flatMap((found) => this.#repeated(found))
        .filter((path) => path.length <= budgets.recursiveRevivalSteps && !known.has(keyOf(path)))
        .sort((a, b) => a.length - b.length)
        .slice(0, limit - known.size);
      for (const path of next) known.set(keyOf(path), path);
      last = next;
    }
    return [...known.values()];
  }

  #repeated(found: Path): Path[] {
    return this.#references
      .filter(({ start }) => startsWith(found, start))
      .map(({ path, start }) => path.concat(found.slice(start.length)));
  }
}

function keyOf(path: Path): string {
  return JSON.stringify(path);
}

export function startsWith(path: Path, start: Path): boolean {
  return start.length <= path.length && start.every((step, index) => path[index] === step);
}
