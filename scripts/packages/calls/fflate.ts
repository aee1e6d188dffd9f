import * as fflate from "fflate";

/** Packs texts in two ways. */
export async function packed(): Promise<{ gzip: string; names: string[] }> {
  const text = fflate.strToU8("Hello world! ".repeat(20));
  const gzip = fflate.strFromU8(fflate.decompressSync(fflate.gzipSync(text))).slice(0, 12);
  const zipped = fflate.zipSync({ "a.txt": text, folder: { "b.txt": [text, { level: 0 }] } });
  return { gzip, names: Object.keys(fflate.unzipSync(zipped)) };
}
