import JSZip from "jszip";

/** Packs files, and reads them again. */
export async function files(): Promise<{ names: string[]; text: string | undefined; size: boolean }> {
  const zip = new JSZip();
  zip.file("Hello.txt", "Hello World\n");
  zip.folder("more")!.file("b.txt", "x".repeat(1_000));
  const bytes = await zip.generateAsync({ type: "uint8array", compression: "DEFLATE" });
  const read = await JSZip.loadAsync(bytes);
  return {
    names: Object.keys(read.files),
    text: await read.file("Hello.txt")?.async("string"),
    size: bytes.length < 600,
  };
}
