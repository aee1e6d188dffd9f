import { isCid, type Cid } from "../lib/cid.ts";

/** The target of a URI in one of Berth's own schemes. Names are decoded, and dots in them have no special meaning. */
export type Address =
  | { readonly kind: "cid"; readonly cid: Cid }
  | { readonly kind: "variable"; readonly name: string }
  /** `path` is a tool's name, or empty for the tool named like its server; `query` is as written. */
  | { readonly kind: "server"; readonly server: string; readonly path: string; readonly query: string };

/** True for a URI, or a URI template, in one of Berth's own schemes. */
export function isOwnUri(uri: string): boolean {
  return /^(?:cid|variable|server):\/\//.test(uri);
}

/** The longest URI that is parsed, in UTF-16 code units. */
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
    // Not every "%" begins a valid escape.
    return undefined;
  }
}
