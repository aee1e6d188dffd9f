import { buffer } from "node:stream/consumers";
import tar from "tar-stream";

/** Packs files, and reads them again. */
export async function files(): Promise<{ name: string; text: string }[]> {
  const pack = tar.pack();
  pack.entry({ name: "my-test.txt", mtime: new Date(0) }, "Hello World!");
  pack.entry({ name: "b.txt", mtime: new Date(0) }, "more");
  pack.finalize();
  const extract = tar.extract();
  extract.end(await buffer(pack));
  const found: { name: string; text: string }[] = [];
  for await (const entry of extract) found.push({ name: entry.header.name, text: (await buffer(entry)).toString() });
  return found;
}
