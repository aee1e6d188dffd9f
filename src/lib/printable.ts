/**
 * Names and code come from others: they must neither steer the terminal that they are shown on nor change the order in
 * which it shows what stands beside them. Line ends stay.
 */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\p{Bidi_Control}]/gu, "\ufffd");
}

/** The same for what is one line of a list: a name must not write lines of its own into it. */
export function printableLine(text: string): string {
  return printable(text).replaceAll("\n", "\ufffd");
}

/** The same for text of several lines, whose tabs stay, too. */
export function printableText(text: string): string {
  return text.replaceAll("\r\n", "\n").split("\t").map(printable).join("\t");
}

/** The same for JSON text, as other JSON text of the same value. */
export function printableJson(json: string): string {
  // Of all control characters JSON text escapes only those below U+0020.
  return json.replace(
    /[\u007f-\u009f\p{Bidi_Control}]/gu,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
