import { Document, Packer, Paragraph, TextRun } from "docx";

/** Makes a document. */
export async function document(): Promise<{ start: string; isLong: boolean }> {
  const made = new Document({
    sections: [
      { children: [new Paragraph({ children: [new TextRun("Hello World"), new TextRun({ text: "!", bold: true })] })] },
    ],
  });
  const bytes = await Packer.toBuffer(made);
  return { start: new TextDecoder().decode(bytes.subarray(0, 2)), isLong: bytes.length > 1_000 };
}
