/** The target of a redirect: something here, by its URI; another site; or none, with the reason. */
export type Location =
  | { readonly kind: "internal"; readonly uri: string }
  | { readonly kind: "external"; readonly url: string }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * Reads the address of a redirect as a function wrote it. `/servers/<name>/<function>` is here, and means `server://…`.
 */
export function readLocation(text: string): Location {
  const reason = `a redirect leads to ${WANTED}`;
  // A written URI has no spaces, control characters or non-ASCII characters.
  if (!/^[\x21-\x7e]+$/.test(text)) return { kind: "refused", reason: `${reason}, written as a URI` };
  if (/^(?:cid|variable|server):\/\//.test(text)) return { kind: "internal", uri: text };
  const path = /^\/servers\/([^/?#].*)$/.exec(text)?.[1];
  if (path !== undefined) return { kind: "internal", uri: `server://${path}` };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return { kind: "external", url: url.href };
  return { kind: "refused", reason };
}

const WANTED = "/servers/<name>/<function>, server://, cid://, variable://, https:// or http://";
