import type { JsonObject } from "../lib/json.ts";

/** The capabilities that callers of a hosted server may have: each question goes to its own caller. */
export const hostedCapabilities: JsonObject = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
