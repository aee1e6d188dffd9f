import { RE2JS } from "re2js";

/**
 * Regular expressions of definitions run in the serving process, so they run in linear time: by RE2's rules, which
 * have no look-around and no back-references. Throws what RE2 has to say about a pattern that it cannot take.
 */
export function compilePattern(pattern: string): CompiledPattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  return {
    // Ajv keeps one object for all patterns of the same name, and takes `toString` for the name.
    test: (text) => compiled.matcher(text).find(),
    toString: () => pattern,
    instructions: compiled.programSize(),
  };
}

export interface CompiledPattern {
  test(text: string): boolean;
  toString(): string;
  /** Each is carried out once, at the most, for each character of a text. */
  readonly instructions: number;
}

/** Why a pattern cannot be used, as the end of a sentence; undefined when it can. */
export function faultOfPattern(pattern: string): string | undefined {
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
