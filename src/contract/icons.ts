import { isObject, type JsonObject } from "../lib/json.ts";

/** An icon of a server, a tool, a resource or a prompt, as in a definition or an entry (2025-11-25 `Icon`). */
export type Icon = JsonObject & {
  /** An `https:` URL, or an image as a `data:` URI in base64. */
  readonly src: string;
  readonly mimeType?: string;
  /** `48x48`, or `any`. */
  readonly sizes?: string[];
  readonly theme?: "light" | "dark";
};

/** Limits on the icons of one item, and on the bytes of an embedded one: clients receive them with each list. */
export const ICONS_MAX = 8;
export const ICON_BYTES_MAX = 16 * 1024;

const FIELDS = new Set(["src", "mimeType", "sizes", "theme"]);
const IMAGE = /^image\/(?:png|jpeg|jpg|gif|webp|svg\+xml|x-icon)$/;
const IMAGE_DATA = /^data:(image\/[a-z0-9.+-]+);base64,(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
export const ICON_SIZE = /^(?:[1-9]\d{0,3}x[1-9]\d{0,3}|any)$/;
const URL_UNITS_MAX = 2_048;

/** Why a value is not a valid icon, as the end of "an icon …"; undefined if it is. */
export function findIconFault(icon: unknown): string | undefined {
  if (!isObject(icon)) return "must be an object with a src";
  const { src, mimeType, sizes, theme } = icon;
  const unknown = Object.keys(icon).find((field) => !FIELDS.has(field));
  if (unknown !== undefined) return `may have src, mimeType, sizes and theme, but not "${unknown.slice(0, 100)}"`;
  if (typeof src !== "string") return "needs a src: an https: URL, or an image as a data: URI";
  if (mimeType !== undefined && !(typeof mimeType === "string" && IMAGE.test(mimeType)))
    return "needs the mimeType of an image: image/png, image/jpeg, image/svg+xml, image/webp, image/gif or image/x-icon";
  if (
    sizes !== undefined &&
    !(
      Array.isArray(sizes) &&
      sizes.length <= ICONS_MAX &&
      sizes.every((size) => typeof size === "string" && ICON_SIZE.test(size))
    )
  )
    return 'needs sizes such as ["48x48"], or ["any"]';
  if (theme !== undefined && theme !== "light" && theme !== "dark") return 'needs the theme "light" or "dark"';
  return findSourceFault(src);
}

function findSourceFault(src: string): string | undefined {
  if (src.startsWith("data:")) {
    if (src.length > ICON_UNITS_MAX)
      return `may have at most ${ICON_BYTES_MAX} bytes: make it smaller, or use its https: URL`;
    const type = IMAGE_DATA.exec(src)?.[1];
    return type !== undefined && IMAGE.test(type) ? undefined : "must be an image in base64: data:image/png;base64,…";
  }
  const url = src.length <= URL_UNITS_MAX && URL.canParse(src) ? new URL(src) : undefined;
  const isValid = url?.protocol === "https:" && url.username === "" && url.password === "" && !/[\s"'<>\\]/.test(src);
  return isValid ? undefined : "must be an https: URL without a password, or a data: URI";
}

/** The length of a data: URI with this many bytes, including its prefix. */
const ICON_UNITS_MAX = Math.ceil(ICON_BYTES_MAX / 3) * 4 + 40;

/** An image embedded in a list as a data: URI. */
export function embedIcon(base64: string, mimeType: string): string {
  return `data:${mimeType};base64,${base64}`;
}
