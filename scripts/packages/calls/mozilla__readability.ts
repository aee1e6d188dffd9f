import { Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";

/** The article of a page. */
export function article(): { title: string | null | undefined; text: string | null | undefined } {
  const paragraphs = Array.from(
    { length: 6 },
    (_, index) => `<p>Paragraph ${index}: ${"words, and more words. ".repeat(10)}</p>`,
  );
  const html = `<!DOCTYPE html><html><head><title>A story</title></head><body><article><h1>A story</h1>${paragraphs.join("")}</article></body></html>`;
  const { document } = parseHTML(html);
  const article = new Readability(document).parse();
  return { title: article?.title, text: article?.textContent?.trim().slice(0, 40) };
}
