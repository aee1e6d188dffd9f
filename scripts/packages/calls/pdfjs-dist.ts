import { getDocument } from "pdfjs-dist/legacy/build/pdf.mjs";
import * as worker from "pdfjs-dist/legacy/build/pdf.worker.mjs";

// A guest has one thread: the library then does the work of its worker by itself.
(globalThis as { pdfjsWorker?: unknown }).pdfjsWorker = worker;

/** A document of one page, written by hand. */
const document = [
  "%PDF-1.4",
  "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
  "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj",
  "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj",
  "4 0 obj<</Length 38>>stream\nBT /F1 12 Tf 20 100 Td (Hello) Tj ET   \nendstream endobj",
  "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
  "trailer<</Root 1 0 R>>",
  "%%EOF",
].join("\n");

/** The text of a document. */
export async function text(): Promise<{ pages: number; text: string }> {
  const pdf = await getDocument({ data: new TextEncoder().encode(document), verbosity: 0 }).promise;
  const page = await pdf.getPage(1);
  const { items } = await page.getTextContent();
  return { pages: pdf.numPages, text: items.map((item) => ("str" in item ? item.str : "")).join("") };
}
