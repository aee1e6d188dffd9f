import type ts from "#typescript";
import { fixed } from "../../limits/fixed.ts";

/** Limit of type declarations of packages, in UTF-16 code units. The checker needs some 20 bytes of memory for each. */
const bounds = fixed({ declarationUnits: 16 * 1024 * 1024 });

/** The message names the package; `importedAt` is the import of the definition that leads to it. */
export class TooManyDeclarations extends Error {
  readonly importedAt: ts.StringLiteralLike;

  constructor(importedAt: ts.StringLiteralLike) {
    const megabytes = bounds.declarationUnits / 1024 ** 2;
    super(
      `The packages have more than ${megabytes} MB of type declarations, most of them for ${importedAt.getText()}; ` +
        "import a package for the part of it that you use, or call its HTTP API with fetch.",
    );
    this.importedAt = importedAt;
  }
}

/** Counts the declarations that each import of a definition loads, to reject too many before all are read. */
export class DeclarationCounter {
  readonly #imports = new Map<string, ts.StringLiteralLike>();
  readonly #units = new Map<ts.StringLiteralLike, number>();
  #all = 0;

  /** Records that an import of the definition, or of the package file `of`, resolves to `file`. */
  recordImport(file: string, literal: ts.StringLiteralLike, of?: string): void {
    if (!this.#imports.has(file)) this.#imports.set(file, this.#imports.get(of ?? "") ?? literal);
  }

  /** Throws `TooManyDeclarations`. */
  recordRead(file: string, units: number): void {
    const importedAt = this.#imports.get(file);
    if (!importedAt) return;
    this.#all += units;
    this.#units.set(importedAt, (this.#units.get(importedAt) ?? 0) + units);
    if (this.#all <= bounds.declarationUnits) return;
    const [[largest]] = [...this.#units].sort(([, one], [, other]) => other - one) as [[ts.StringLiteralLike, number]];
    throw new TooManyDeclarations(largest);
  }
}
