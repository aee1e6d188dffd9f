/**
 * Makes foreign names and code safe to show: they must neither control the terminal nor reorder the text beside them.
 * Line ends stay.
 */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\p{Bidi_Control}]/gu, "\ufffd");
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
  // Of all control characters JSON text escapes only those below U+0020.
  return json.replace(
    /[\u007f-\u009f\p{Bidi_Control}]/gu,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
