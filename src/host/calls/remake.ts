import { BerthError } from "../../lib/errors.ts";
import type { Checks } from "../checks/checks.ts";
import type { RemadeInto } from "../checks/tasks.ts";
import type { Bare } from "../offers/content.ts";
import { LongObject, LongResult } from "../offers/long-result.ts";

/** Converts long values off-thread. Each method rejects with `guest_failed` if the value cannot be converted. */
export interface Converter {
  /** If the result is an error, rejects with its text. */
  contents(of: LongResult | LongObject | Uint8Array, uri: string, mimeType: string | undefined): Promise<LongObject>;
  prompt(of: LongResult, description: string | undefined): Promise<LongObject>;
  result(contents: LongObject): Promise<LongResult>;
  /** Like `bareOf`. */
  bare(of: LongResult): Promise<Bare>;
}

export function createConverter(checks: Pick<Checks, "remake">, tenant: string): Converter {
  const convert = async (of: LongResult | LongObject | Uint8Array, target: RemadeInto) => {
    const from = of instanceof LongResult ? "result" : of instanceof LongObject ? "contents" : "bytes";
    const pieces = of instanceof Uint8Array ? [of] : of.text.pieces;
    const converted = await checks.remake(tenant, { pieces, from, into: target });
    if ("failed" in converted) throw new BerthError("guest_failed", converted.failed);
    return converted;
  };
  const object = async (of: LongResult | LongObject | Uint8Array, target: RemadeInto): Promise<LongObject> => {
    const converted = await convert(of, target);
    if ("object" in converted) return new LongObject(converted.object);
    throw new TypeError("a result came back where none was asked for");
  };
  return {
    contents: (of, uri, mimeType) => object(of, { as: "contents", uri, mimeType }),
    prompt: (of, description) => object(of, { as: "prompt", description }),
    async result(contents) {
      const converted = await convert(contents, { as: "result" });
      if ("result" in converted) return new LongResult(converted.result);
      throw new TypeError("no result came back where one was asked for");
    },
    async bare(of) {
      const converted = await convert(of, { as: "bare" });
      if ("bare" in converted) return converted.bare;
      throw new TypeError("no bare value came back where one was asked for");
    },
  };
}
