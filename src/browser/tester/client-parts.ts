/**
 * What the client takes from its surroundings, as for a browser, but without its own copy of the validator:
 * connection.ts gives it ours. scripts/bundle-browser.mjs puts it in the place of `@modelcontextprotocol/client/_shims`.
 */
export { CfworkerValidator as DefaultJsonSchemaValidator } from "./form/validation.ts";

/** A failed `fetch` can be a matter of other origins here, and not of the server. */
export const CORS_IS_POSSIBLE = true;
