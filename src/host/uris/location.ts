/** Where a redirect leads: to something here, by its URI; to another site; or nowhere, and why. */
export type Location =
  | { readonly kind: "internal"; readonly uri: string }
  | { readonly kind: "external"; readonly url: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Reads the address of a redirect as a function wrote it. `/servers/<name>/<function>` is here, and is `server://…`. */
export function readLocation(text: string): Location {
  const reason = `a redirect leads to ${WANTED}`;
  // Spaces, controls and what is not ASCII are no part of a URI as it is written.
  if (!/^[\x21-\x7e]+$/.test(text)) return { kind: "refused", reason: `${reason}, written as a URI` };
  if (/^(?:cid|variable|server):\/\//.test(text)) return { kind: "internal", uri: text };
  const path = /^\/servers\/([^/?#].*)$/.exec(text)?.[1];
  if (path !== undefined) return { kind: "internal", uri: `server://${path}` };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return { kind: "external", url: url.href };
  return { kind: "refused", reason };
}

const WANTED = "/servers/<name>/<function>, server://, cid://, variable://, https:// or http://";
