import TurndownService from "turndown";

/** HTML as Markdown. */
export function markdown(): string {
  return new TurndownService({ headingStyle: "atx" }).turndown("<h1>Hello <em>world</em>!</h1><ul><li>one</li></ul>");
}
