/**
 * Makes foreign names and code safe to show: they must neither control the terminal, nor reorder or hide the text beside
 * them. Line ends stay.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** As `printable`, for one line of a list: a name must not add lines of its own. */
export function printableLine(text: string): string {
  return printable(text).replaceAll("\n", "\ufffd");
}

/** As `printable`, for text of several lines, whose tabs stay, too. */
export function printableText(text: string): string {
  return text.replaceAll("\r\n", "\n").split("\t").map(printable).join("\t");
}

/** As `printable`, for JSON text; the result has the same value. */
export function printableJson(json: string): string {
  // Of all control characters JSON text escapes only those below U+0020, which are between its values otherwise.
  const escape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return json.replace(UNPRINTABLE, (found) => (found < " " ? found : found.split("").map(escape).join("")));
}

/** Control characters; marks of direction; what has no width, but for the joiners of scripts; halves of pairs. */
const UNPRINTABLE =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Bidi_Control}\p{Surrogate}]/gu;
