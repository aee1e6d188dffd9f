import type { CallOptions, InputRequired, ReadResult } from "../catalog.ts";

/**
 * Reads what a `cid://`, `variable://` or `server://` URI leads to, for one server of one tenant. It does not ask
 * whether the server may: that is for who was handed the URI by somebody else (`uris.find`); what an operator wrote
 * into the server's entry is allowed by being there.
 *
 * Lazy: nothing is read or run before. Rejects with `resource_not_found` (data: `uri`) for what is not there or is no
 * such URI, `resource_too_large`, and `guest_failed` when a server's function fails.
 */
export type ReadUri = (uri: string, reading: Reading, options: CallOptions) => Promise<ReadResult | InputRequired>;

export interface Reading {
  /** Under which URI the contents are given, if not their own. */
  readonly as?: string;
  /** What they are, if somebody has said so; else it is found from the content. */
  readonly mimeType?: string | undefined;
}
