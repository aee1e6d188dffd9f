import matter from "gray-matter";

/** The data at the beginning of a text, and the rest. */
export function parts(): { data: unknown; content: string } {
  const { data, content } = matter("---\ntitle: Front Matter\ntags: [a, b]\n---\nThis is content.");
  return { data, content };
}
