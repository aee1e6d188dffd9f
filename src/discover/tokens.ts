export interface Token {
  readonly kind: "word" | "string" | "mark" | "template" | "regex";
  readonly text: string;
  readonly offset: number;
}

/**
 * Words, strings, marks, and where templates and regular expressions begin or go on. Comments are passed over; escapes
 * in words are resolved. Never fails, whatever the text is.
 */
export function* tokenize(text: string): Generator<Token> {
  const pattern = new RegExp(tokenPattern, "uy");
  const braces: boolean[] = []; // For each open brace, whether it is a template's `${`.
  let previous: Token | undefined;
  let noRegexBefore = 0;
  let offset = 0;
  while (offset < text.length) {
    const closesTemplate = text[offset] === "}" && braces.at(-1) === true;
    if (text[offset] === "`" || closesTemplate) {
      if (closesTemplate) braces.pop();
      const end = templateEnd(text, offset + 1);
      if (end.opens) braces.push(true);
      previous = { kind: "template", text: end.opens ? "${" : "`", offset };
      yield previous;
      offset = end.offset;
      continue;
    }
    if (text[offset] === "/" && offset >= noRegexBefore && startsExpression(previous)) {
      const { end, triedUpTo } = regexEnd(text, offset);
      // A line that was read to its end in vain is not read again from every further slash.
      if (end === undefined) noRegexBefore = triedUpTo;
      else {
        previous = { kind: "regex", text: "/", offset };
        yield previous;
        offset = end;
        continue;
      }
    }
    pattern.lastIndex = offset;
    const match = pattern.exec(text);
    if (match === null) {
      offset += 1;
      continue;
    }
    const { word, string } = match.groups!;
    if (match.groups!["skip"] === undefined) {
      const kind = word === undefined ? (string === undefined ? "mark" : "string") : "word";
      previous = { kind, text: kind === "word" ? plainName(match[0]) : match[0], offset };
      if (match[0] === "{") braces.push(false);
      if (match[0] === "}") braces.pop();
      yield previous;
    }
    offset = pattern.lastIndex;
  }
}

/** A letter of a name may be written as an escape: `requ\u0069re` is `require`. */
const escape = String.raw`\\u(?:[\da-fA-F]{4}|\{[\da-fA-F]{1,6}\})`;

const tokenPattern = [
  String.raw`(?<skip>\s+|//[^\n\r]*|/\*[\s\S]*?(?:\*/|$))`,
  String.raw`(?<word>(?:[\p{ID_Start}$_#@]|${escape})(?:[\p{ID_Continue}$]|${escape})*)`,
  String.raw`(?<string>"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?)`,
  String.raw`(?<number>\d[\w.]*)`,
  String.raw`[\s\S]`,
].join("|");

/** Up to the closing backtick, or to the `${` of the next substitution. */
function templateEnd(text: string, from: number): { offset: number; opens: boolean } {
  for (let offset = from; offset < text.length; offset += 1) {
    if (text[offset] === "\\") offset += 1;
    else if (text[offset] === "`") return { offset: offset + 1, opens: false };
    else if (text.startsWith("${", offset)) return { offset: offset + 2, opens: true };
  }
  return { offset: text.length, opens: false };
}

/** True if a `/` here begins a comment or a regular expression rather than a division. */
function startsExpression(previous: Token | undefined): boolean {
  switch (previous?.kind) {
    case "word":
      return /^(return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield)$/.test(previous.text);
    case "mark":
      return !/^[)\]}\d]/.test(previous.text);
    case "template":
      return previous.text === "${";
    case undefined:
      return true;
    default:
      return false;
  }
}

function regexEnd(text: string, from: number): { end?: number; triedUpTo: number } {
  if (text[from + 1] === "/" || text[from + 1] === "*") return { triedUpTo: from };
  let inClass = false;
  let offset = from + 1;
  for (; offset < text.length && text[offset] !== "\n"; offset += 1) {
    if (text[offset] === "\\") offset += 1;
    else if (text[offset] === "[") inClass = true;
    else if (text[offset] === "]") inClass = false;
    else if (text[offset] === "/" && !inClass) return { end: offset + 1, triedUpTo: offset };
  }
  return { triedUpTo: offset };
}

function plainName(word: string): string {
  return word.replace(/\\u(?:\{([\da-f]+)\}|([\da-f]{4}))/gi, (whole, braced: string, four: string) => {
    const code = Number.parseInt(braced ?? four, 16);
    return code > 0x10_ffff ? whole : String.fromCodePoint(code);
  });
}
