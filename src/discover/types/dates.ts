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
    for (let round = 0; round < budgets.dateRecursions; round += 1) {
      const before = known.size;
      for (const { path, start } of this.#references) {
        const paths = [...known.values()];
        for (const found of paths) {
          if (known.size >= budgets.datePaths) return [...known.values()];
          if (!startsWith(found, start)) continue;
          const repeated = [...path, ...found.slice(start.length)];
          if (repeated.length <= budgets.dateRecursions * 4) known.set(JSON.stringify(repeated), repeated);
        }
      }
      if (known.size === before) break;
    }
    return [...known.values()];
  }
}

function startsWith(path: Path, start: Path): boolean {
  return start.length <= path.length && start.every((step, index) => path[index] === step);
}
