/**
 * Makes untrusted names and code safe to show: they must neither control the terminal, nor reorder or hide the text
 * around them. Line ends are preserved.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** Like `printable`, for one line of a list: a name must not add lines of its own. */
export function printableLine(text: string): string {
  return printable(text).replaceAll("\n", "\ufffd");
}

/** Like `printable`, for text of several lines; tabs are preserved as well. */
export function printableText(text: string): string {
  return text.replaceAll("\r\n", "\n").split("\t").map(printable).join("\t");
}

/** Like `printable`, for JSON; the result has the same value. */
export function printableJson(json: string): string {
  // JSON escapes only control characters below U+0020; unescaped ones are white space between values.
  const escape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return json.replace(UNPRINTABLE, (match) => (match < " " ? match : match.split("").map(escape).join("")));
}

/** Control characters; direction marks; zero-width characters except for joiners; lone surrogates. */
const UNPRINTABLE =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Bidi_Control}\p{Surrogate}]/gu;
