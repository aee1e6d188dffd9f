import type { JsonObject, JsonSchema, JsonText } from "../../lib/json.ts";
import type { CalledTool } from "../journal/record.ts";
import type { CallOptions, InputRequired } from "../offers/catalog.ts";

/** Asks users for their consent to calls: the part of the feature "consents" that calls use. */
export interface ConsentPort {
  /** `inputSchema` is the tool's: the arguments that it names are shown first. */
  of(tool: CalledTool, inputSchema: JsonSchema): Consent;
}

/** The consent that the calls of one tool need. */
export interface Consent {
  check(args: JsonObject | JsonText, options: CallOptions): Promise<Checked>;
}

/** To ask the user first, not to call it, or to call it and say which further answers the call then waits for. */
export type Checked =
  | { readonly asked: InputRequired; readonly refused?: undefined }
  | { readonly refused: string; readonly asked?: undefined }
  | {
      readonly waitsFor: (keys: readonly string[]) => Promise<void>;
      readonly asked?: undefined;
      readonly refused?: undefined;
    };
