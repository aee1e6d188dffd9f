import { marked } from "marked";

/** Markdown as HTML. */
export async function html(): Promise<string> {
  return await marked.parse("# Marked in Node.js\n\nRendered by **marked**.");
}
