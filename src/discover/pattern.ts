import { RE2JS } from "re2js";

/** Compiles for linear time (RE2), because the pattern runs in the serving process. Throws RE2's error. */
export function compilePattern(pattern: string): CompiledPattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  return {
    // Ajv caches one object per pattern and uses `toString` as the key.
    test: (text) => compiled.matcher(text).find(),
    toString: () => pattern,
    instructions: compiled.programSize(),
  };
}

export interface CompiledPattern {
  test(text: string): boolean;
  toString(): string;
  /** Each runs at most once per character of the input. */
  readonly instructions: number;
}

/** Why a pattern cannot be used, as the end of a sentence; undefined if it can. */
export function findPatternFault(pattern: string): string | undefined {
  try {
    RegExp(pattern, "u");
  } catch (error) {
    return `is not a regular expression: ${(error as Error).message.replace(/^Invalid regular expression: /, "")}`;
  }
  try {
    compilePattern(pattern);
    return undefined;
  } catch (error) {
    return (
      `cannot be checked in linear time (${(error as Error).message}); ` +
      "look-ahead, look-behind and back-references are not available; write it without them"
    );
  }
}
