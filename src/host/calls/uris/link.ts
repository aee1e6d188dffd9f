import type { Resource } from "../../catalog/catalog.ts";
import type { ValidatorOf } from "../../checks/checks.ts";
import { uriFinder, type Find, type Findable, type Open } from "../resource.ts";
import { expandTemplate } from "./expand-template.ts";
import type { ReadUri } from "./read-uri.ts";

/** A resource of a server's entry whose content comes from another URI, or from its own. */
export interface Link extends Findable {
  /** A `cid://`, `variable://` or `server://` URI; for a template, it may contain the template's variables. */
  readonly target: string;
}

export function linkedResource(link: Link, { readUri }: { readonly readUri: ReadUri }): Open<Resource> {
  const open = opener(link);
  return (uri, args) => {
    const target = open(uri, args);
    return { read: (options) => readUri(target, { as: uri, mimeType: link.mimeType }, options) };
  };
}

/** Finds the URI that an entry's resource is read from; undefined for what the entry does not list. */
export function targetFinder(links: readonly Link[], validatorOf: ValidatorOf): Find<string> {
  return uriFinder(
    links.map((link) => ({ ...link, open: opener(link) })),
    validatorOf,
  );
}

function opener({ uri: template, target }: Link): Open<string> {
  // A link to its own URI reads the URI as requested.
  return (uri, args) => (target === template ? uri : expandTemplate(target, args));
}
