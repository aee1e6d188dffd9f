import markdownit from "markdown-it";

const md = markdownit({ html: true, linkify: true, typographer: true });

/** Markdown as HTML. */
export function html(): string {
  return md.render("# markdown-it rulezz!\n\nSee https://example.org (c)");
}
