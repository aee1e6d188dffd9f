/**
 * The client's browser shims, but without its own copy of the validator: session.ts gives it ours.
 * scripts/bundle-browser.mjs substitutes this for `@modelcontextprotocol/client/_shims`.
 */
export { CfworkerValidator as DefaultJsonSchemaValidator } from "./form/validation.ts";

/** A failed `fetch` may be due to CORS here, and not to the server. */
export const CORS_IS_POSSIBLE = true;
