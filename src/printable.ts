/** Names and code come from others: they must not steer the terminal that they are shown on. Line ends stay. */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}

/** The same for what is one line of a list: a name must not write lines of its own into it. */
export function printableLine(text: string): string {
  return printable(text).replaceAll("\n", "\ufffd");
}
