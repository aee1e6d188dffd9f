import type { JsonObject } from "../lib/json.ts";

/** What callers of a hosted server may be able to do: each question is for its own caller. */
export const hostedCapabilities: JsonObject = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
