import { findIconFault, ICON_BYTES_MAX, ICON_SIZE, embedIcon, type Icon } from "../../contract/icons.ts";
import { mediaTypeFor } from "../../lib/media-type.ts";
import { isBinary, resolveTagFile } from "../files/resolve.ts";

/** `@icon <URL, data: URI or file> [media type] [48x48 …] [light|dark]`. A file is embedded in lists. */

/** The files named by `@icon` tags in comments, with their offsets. For gathering, without a compiler. */
export function findIconFiles(text: string): { readonly file: string; readonly offset: number }[] {
  if (!text.includes("@icon")) return [];
  return [...text.matchAll(/^[^\S\n]*(?:(?:\/\*\*|\*|#)[^\S\n]*)?@icon[^\S\n]+(\S+)/gm)].flatMap(
    ({ index, 0: whole, 1: file }) =>
      isImageFile(file!) ? [{ file: file!, offset: index + whole.length - file!.length }] : [],
  );
}

function isImageFile(word: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:/i.test(word) && (mediaTypeFor(word)?.startsWith("image/") ?? false);
}

/** The icon of a tag in the file `importer`, or what is wrong and with which word. */
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
  if (src === "")
    return {
      fault: "@icon needs an https: URL, a data: URI or a file next to the definition: @icon icon.png",
      word: "",
    };
  if (unknown !== undefined) {
    const expected = "a media type, sizes such as 48x48, and light or dark";
    return { fault: `@icon takes ${expected} after its image, not "${unknown}"`, word: unknown };
  }
  const image = isImageFile(src) ? readImage(src, importer, files) : src;
  if (typeof image !== "string") return { ...image, word: src };
  const mimeType = types[0] ?? (image.startsWith("data:") ? /^data:([^;,]+)/.exec(image)?.[1] : mediaTypeFor(image));
  const icon: Icon = {
    src: image,
    ...(mimeType !== undefined && { mimeType }),
    ...(sizes.length > 0 && { sizes }),
    ...(themes[0] && { theme: themes[0] }),
  };
  const fault = findIconFault(icon);
  return fault === undefined ? { icon } : { fault: `an icon ${fault}`, word: src };
}

function readImage(
  file: string,
  importer: string,
  files: Readonly<Record<string, string>>,
): string | { readonly fault: string } {
  const target = resolveTagFile(importer, file, (path) => Object.hasOwn(files, path));
  if (target.kind !== "file")
    return { fault: `@icon ${file} is not a file of the definition; put it next to this one` };
  const text = files[target.path]!;
  const base64 = isBinary(target.path) ? text : Buffer.from(text).toString("base64");
  const bytes = Buffer.byteLength(base64, "base64");
  if (bytes > ICON_BYTES_MAX) {
    return {
      fault: `${file} has ${bytes} bytes; an icon may have at most ${ICON_BYTES_MAX}: make it smaller, or use its https: URL`,
    };
  }
  return embedIcon(base64, mediaTypeFor(target.path)!);
}
