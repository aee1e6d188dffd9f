import { PDFDocument, rgb, StandardFonts } from "pdf-lib";

/** Makes a document, and reads it again. */
export async function pdf(): Promise<{ header: string; pages: number; title: string | undefined; width: number }> {
  const made = await PDFDocument.create();
  made.setTitle("A title");
  const page = made.addPage([300, 400]);
  const font = await made.embedFont(StandardFonts.TimesRoman);
  page.drawText("Creating PDFs in JavaScript is awesome!", {
    x: 50,
    y: 350,
    size: 12,
    font,
    color: rgb(0, 0.53, 0.71),
  });
  const bytes = await made.save();
  const read = await PDFDocument.load(bytes);
  const header = new TextDecoder("latin1").decode(bytes.subarray(0, 5));
  return { header, pages: read.getPageCount(), title: read.getTitle(), width: read.getPage(0).getWidth() };
}
