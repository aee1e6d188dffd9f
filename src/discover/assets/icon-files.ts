import { faultOfIcon, ICON_BYTES_MAX, ICON_SIZE, embedIcon, type Icon } from "../../contract/icons.ts";
import { mediaTypeOf } from "../../lib/media-type.ts";
import { isBytes, resolveTagFile } from "../files/resolve.ts";

/**
 * `@icon <URL, data: URI or file> [media type] [48x48 …] [light|dark]`, in the comment of a function or the header of a
 * script. A file is one beside the definition, and becomes part of what is listed.
 */

/** The files that `@icon` tags in comments name, each with its offset. For gathering, without a compiler. */
export function iconFiles(text: string): { readonly file: string; readonly offset: number }[] {
  if (!text.includes("@icon")) return [];
  return [...text.matchAll(/^[^\S\n]*(?:(?:\/\*\*|\*|#)[^\S\n]*)?@icon[^\S\n]+(\S+)/gm)].flatMap(
    ({ index, 0: whole, 1: file }) =>
      isImageFile(file!) ? [{ file: file!, offset: index + whole.length - file!.length }] : [],
  );
}

function isImageFile(word: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:/i.test(word) && (mediaTypeOf(word)?.startsWith("image/") ?? false);
}

/** The icon of a tag in the file `importer`, or what is wrong with it and with which of its words. */
export function readIcon(
  text: string,
  importer: string,
  files: Readonly<Record<string, string>>,
): { readonly icon: Icon } | { readonly fault: string; readonly word: string } {
  const [src = "", ...words] = text.split(/\s+/).filter(Boolean);
  const sizes = words.filter((word) => ICON_SIZE.test(word));
  const themes = words.filter((word) => word === "light" || word === "dark");
  const types = words.filter((word) => word.includes("/"));
  const unknown = words.find((word) => ![...sizes, ...themes, ...types].includes(word));
  if (src === "") return { fault: "@icon needs an https: URL, a data: URI or a file beside: @icon icon.png", word: "" };
  if (unknown !== undefined) {
    const wanted = "a media type, sizes such as 48x48, and light or dark";
    return { fault: `@icon takes ${wanted} after its image, not "${unknown}"`, word: unknown };
  }
  const found = isImageFile(src) ? bytesOf(src, importer, files) : src;
  if (typeof found !== "string") return { ...found, word: src };
  const mimeType = types[0] ?? (found.startsWith("data:") ? /^data:([^;,]+)/.exec(found)?.[1] : mediaTypeOf(found));
  const icon: Icon = {
    src: found,
    ...(mimeType !== undefined && { mimeType }),
    ...(sizes.length > 0 && { sizes }),
    ...(themes[0] && { theme: themes[0] }),
  };
  const fault = faultOfIcon(icon);
  return fault === undefined ? { icon } : { fault: `an icon ${fault}`, word: src };
}

function bytesOf(
  file: string,
  importer: string,
  files: Readonly<Record<string, string>>,
): string | { readonly fault: string } {
  const found = resolveTagFile(importer, file, (path) => Object.hasOwn(files, path));
  if (found.kind !== "file") return { fault: `@icon ${file} names no file of the definition; put it beside this one` };
  const text = files[found.path]!;
  const base64 = isBytes(found.path) ? text : Buffer.from(text).toString("base64");
  const bytes = Buffer.byteLength(base64, "base64");
  if (bytes > ICON_BYTES_MAX) {
    return {
      fault: `${file} has ${bytes} bytes, and an icon may have ${ICON_BYTES_MAX}: make it smaller, or give its https: URL`,
    };
  }
  return embedIcon(base64, mediaTypeOf(found.path)!);
}
