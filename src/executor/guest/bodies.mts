import { encodeRedirect, encodeValue } from "./values.mts";

/** Recognizes the web's result classes without touching them, which would load all of `fetch`. */
export function isBody(value: unknown): value is Blob | Response {
  return typeof value === "object" && value !== null && typeof (value as Partial<Blob>).arrayBuffer === "function";
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** The most text of a failed response that is shown in its error, in UTF-16 units. */
const SHOWN_UNITS_MAX = 2_000;

/** Encodes a body with its type, and fails for a `Response` whose status says so. Rejects with the function's error. */
export async function encodeBody(id: number, body: Blob | Response): Promise<string> {
  if (!("status" in body)) return encodeValue(id, await body.arrayBuffer(), body.type || undefined);
  const { status, statusText, headers } = body;
  const location = REDIRECTS.has(status) ? headers.get("location") : null;
  if (location !== null) return encodeRedirect(id, location);
  // Status 0 is `Response.error()`.
  if (status === 0 || status >= 400) {
    const text = (await body.text()).slice(0, SHOWN_UNITS_MAX).trim();
    throw new Error([`HTTP ${status} ${statusText}`.trim(), text].filter(Boolean).join(": "));
  }
  const bytes = await body.arrayBuffer();
  const type = headers.get("content-type") ?? undefined;
  return encodeValue(id, bytes.byteLength === 0 && type === undefined ? undefined : bytes, type);
}
