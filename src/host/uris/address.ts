import { isCid, type Cid } from "../../lib/cid.ts";

/** What a URI of Berth's own schemes names. Names are decoded, and nothing is made of dots in them. */
export type Address =
  | { readonly kind: "cid"; readonly cid: Cid }
  | { readonly kind: "variable"; readonly name: string }
  /** `path` is a tool's name, or empty for the tool that is named as its server; `query` is as it was written. */
  | { readonly kind: "server"; readonly server: string; readonly path: string; readonly query: string };

/** A URI, or a template of URIs, of the schemes that Berth itself reads. */
export function isOwn(uri: string): boolean {
  return /^(?:cid|variable|server):\/\//.test(uri);
}

/** Longer URIs are nobody's, in UTF-16 units. */
const URI_UNITS_MAX = 8_192;

/** `cid://<cid>`, `variable://<name>` or `server://<name>/<path>?<query>`; undefined for any other URI. */
export function parseAddress(uri: string): Address | undefined {
  if (uri.length > URI_UNITS_MAX) return undefined;
  const [, scheme, name = "", path = "", query = ""] =
    /^(cid|variable|server):\/\/([^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(uri) ?? [];
  if (scheme === undefined) return undefined;
  if (scheme !== "server" && uri.length > `${scheme}://${name}`.length) return undefined;
  try {
    if (scheme === "cid") return isCid(name) ? { kind: "cid", cid: name } : undefined;
    if (scheme === "variable") return { kind: "variable", name: decodeURIComponent(name) };
    return { kind: "server", server: decodeURIComponent(name), path: decodeURIComponent(path), query };
  } catch {
    // Not every "%" is followed by what it stands for.
    return undefined;
  }
}
