import type { CallOptions, InputRequired, ReadResult } from "../../catalog/catalog.ts";

/**
 * Reads the target of a `cid://`, `variable://` or `server://` URI, for one server of one tenant. It does not check
 * that the server may: `uris.find` does so for a URI that others handed over; one that an operator wrote into the
 * server's entry is allowed by being there.
 *
 * Lazy: nothing is read or run before. Rejects with `resource_not_found` (data: `uri`) for a missing target or any
 * other URI, `resource_too_large`, and `guest_failed` when a server's function fails.
 */
export type ReadUri = (uri: string, reading: Reading, options: CallOptions) => Promise<ReadResult | InputRequired>;

export interface Reading {
  /** The URI to give the contents, if not their own. */
  readonly as?: string;
  /** The media type, if it is known; otherwise it is found from the content. */
  readonly mimeType?: string | undefined;
}
