import { budgets } from "../budget.ts";
import type { Path } from "./walker.ts";

/**
 * Where `Date`s stand in the arguments. A schema cannot say it (a date is a string there), so that the paths are kept
 * beside it. Recursive types have dates at endless paths: those are listed level by level down to a limit.
 */
export class Dates {
  readonly #found: Path[] = [];
  readonly #references: { path: Path; start: Path }[] = [];

  add(path: Path): void {
    this.#found.push(path);
  }

  /** At `path` stands what was walked at `start` before. */
  repeat(path: Path, start: Path): void {
    this.#references.push({ path, start });
  }

  /** Forgets what was found since `mark` was taken; for a place that turns out to be undecidable. */
  mark(): number {
    return this.#found.length;
  }

  forget(mark: number): void {
    this.#found.length = mark;
  }

  paths(): Path[] {
    const known = new Map(this.#found.map((path) => [JSON.stringify(path), path]));
    const limit = known.size + budgets.recursiveDatePaths;
    // What was found last is longest; a round adds one level of recursion, so that shallow paths come first.
    for (let last = [...known.values()]; last.length > 0 && known.size < limit;) {
      const next = last
        .flatMap((found) => this.#repeated(found))
        .filter((path) => path.length <= budgets.recursiveDateSteps && !known.has(JSON.stringify(path)))
        .sort((a, b) => a.length - b.length)
        .slice(0, limit - known.size);
      for (const path of next) known.set(JSON.stringify(path), path);
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

function startsWith(path: Path, start: Path): boolean {
  return start.length <= path.length && start.every((step, index) => path[index] === step);
}
