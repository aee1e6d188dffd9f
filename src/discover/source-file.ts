import { constants } from "node:fs";
import { open, realpath, type FileHandle } from "node:fs/promises";
import { isAbsolute, join, relative, sep } from "node:path";

/** One file below a folder, read within limits; what is wrong is said for a person. */
export type SourceFile =
  | { readonly ok: true; readonly text: string; readonly bytes: number }
  | {
      readonly ok: false;
      readonly code: "missing-file" | "outside" | "unreadable-file" | "too-large";
      readonly message: string;
    };

/** Where a path really leads, symbolic links followed. `root` is a real path. */
export async function placeOf(
  root: string,
  path: string,
): Promise<"missing" | "outside" | { readonly realPath: string }> {
  const realPath = await realpath(join(root, path)).catch(() => undefined);
  if (realPath === undefined) return "missing";
  const inside = relative(root, realPath);
  return inside === ".." || inside.startsWith(`..${sep}`) || isAbsolute(inside) ? "outside" : { realPath };
}

export async function readSourceFile(root: string, path: string, bytesMax: number): Promise<SourceFile> {
  const place = await placeOf(root, path);
  if (place === "missing") return fail("missing-file", `There is no file "${path}" in the folder of sources.`);
  if (place === "outside") {
    return fail("outside", `"${path}" is a link out of the folder of sources: put the file itself there.`);
  }
  let file: FileHandle | undefined;
  try {
    // Without blocking: a named pipe that nobody writes to would be waited for without an end.
    file = await open(place.realPath, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = await file.stat();
    if (!stat.isFile()) return fail("unreadable-file", `"${path}" is not a plain file.`);
    if (stat.size > bytesMax) {
      return fail("too-large", `"${path}" has ${stat.size} bytes, and a source file may have ${bytesMax}.`);
    }
    const bytes = await readAtMost(file, bytesMax + 1);
    if (bytes.length > bytesMax) return fail("too-large", `"${path}" grew beyond ${bytesMax} bytes while it was read.`);
    return { ok: true, text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), bytes: bytes.length };
  } catch (cause) {
    if (cause instanceof TypeError) return fail("unreadable-file", `"${path}" is not UTF-8 text.`);
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    return fail("unreadable-file", `"${path}" cannot be read (${code}).`);
  } finally {
    await file?.close();
  }
}

async function readAtMost(file: FileHandle, bytesMax: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of file.createReadStream({ end: bytesMax - 1, autoClose: false })) {
    chunks.push(chunk as Uint8Array);
    length += (chunk as Uint8Array).length;
  }
  return Buffer.concat(chunks, length);
}

function fail(code: Extract<SourceFile, { ok: false }>["code"], message: string): SourceFile {
  return { ok: false, code, message };
}
