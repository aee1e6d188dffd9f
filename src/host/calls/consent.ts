import type { JsonObject, JsonSchema, JsonText } from "../../lib/json.ts";
import type { CalledTool } from "../journal/record.ts";
import type { CallOptions, InputRequired } from "../offers/catalog.ts";

/** Port for the feature "consents", which asks users for their consent to calls. */
export interface ConsentPort {
  /** Arguments named in the tool's `inputSchema` are shown first. */
  forTool(tool: CalledTool, inputSchema: JsonSchema): Consent;
}

/** The consent that the calls of one tool need. */
export interface Consent {
  check(args: JsonObject | JsonText, options: CallOptions): Promise<Checked>;
}

/**
 * Ask the user first, refuse, or run the call. If the call then asks questions of its own, `waitsFor` stores which
 * answers it waits for.
 */
export type Checked =
  | { readonly asked: InputRequired; readonly refused?: undefined }
  | { readonly refused: string; readonly asked?: undefined }
  | {
      readonly waitsFor: (keys: readonly string[]) => Promise<void>;
      readonly asked?: undefined;
      readonly refused?: undefined;
    };
