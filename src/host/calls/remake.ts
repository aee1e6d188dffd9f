import { BerthError } from "../../lib/errors.ts";
import type { Checks } from "../checks/checks.ts";
import type { RemadeInto } from "../checks/tasks.ts";
import type { Bare } from "../offers/content.ts";
import { LongObject, LongResult } from "../offers/long-result.ts";

/** Converts long values off-thread. Each method rejects with `guest_failed` if the value cannot be converted. */
export interface Remake {
  /** If the result is an error, rejects with its text. */
  contents(of: LongResult | LongObject | Uint8Array, uri: string, mimeType: string | undefined): Promise<LongObject>;
  prompt(of: LongResult, description: string | undefined): Promise<LongObject>;
  result(contents: LongObject): Promise<LongResult>;
  /** Like `bareOf`. */
  bare(of: LongResult): Promise<Bare>;
}

export function remaking(checks: Pick<Checks, "remake">, tenant: string): Remake {
  const made = async (of: LongResult | LongObject | Uint8Array, into: RemadeInto) => {
    const from = of instanceof LongResult ? "result" : of instanceof LongObject ? "contents" : "bytes";
    const pieces = of instanceof Uint8Array ? [of] : of.text.pieces;
    const remade = await checks.remake(tenant, { pieces, from, into });
    if ("failed" in remade) throw new BerthError("guest_failed", remade.failed);
    return remade;
  };
  const object = async (of: LongResult | LongObject | Uint8Array, into: RemadeInto): Promise<LongObject> => {
    const remade = await made(of, into);
    if ("object" in remade) return new LongObject(remade.object);
    throw new TypeError("a result came back where none was asked for");
  };
  return {
    contents: (of, uri, mimeType) => object(of, { as: "contents", uri, mimeType }),
    prompt: (of, description) => object(of, { as: "prompt", description }),
    async result(contents) {
      const remade = await made(contents, { as: "result" });
      if ("result" in remade) return new LongResult(remade.result);
      throw new TypeError("no result came back where one was asked for");
    },
    async bare(of) {
      const remade = await made(of, { as: "bare" });
      if ("bare" in remade) return remade.bare;
      throw new TypeError("no bare value came back where one was asked for");
    },
  };
}
