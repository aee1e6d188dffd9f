import type { Catalog } from "../../host/catalog/catalog.ts";
import { jsonOf } from "../../host/calls/long-result.ts";
import { LongText, type Text } from "../../lib/long-text.ts";
import { META_SERVER_INFO } from "../revisions.ts";

/** `task` belongs to the tasks extension (SEP-2663). */
export type ResultType = "complete" | "input_required" | "task";

/** Writes the members that every modern result has: its type, and the server that answered. */
export interface ResultWriter {
  readonly serverInfoOf: (catalog: Catalog) => object;
  readonly write: (catalog: Catalog, type: ResultType, result: object) => Text;
}

const TAIL_KEYS: Readonly<Record<ResultType, string>> = {
  complete: "modern:tail:complete",
  input_required: "modern:tail:input_required",
  task: "modern:tail:task",
};

export function createResultWriter(berthVersion: string): ResultWriter {
  const serverInfoOf = (catalog: Catalog): object => ({
    name: catalog.server,
    version: `${berthVersion}+${catalog.release}`,
  });
  const tailOf = (catalog: Catalog, type: ResultType): string => {
    const key = TAIL_KEYS[type];
    const known = catalog.memo.get(key) as string | undefined;
    if (known !== undefined) return known;
    const tail = `"resultType":"${type}","_meta":${JSON.stringify({ [META_SERVER_INFO]: serverInfoOf(catalog) })}}`;
    catalog.memo.set(key, tail);
    return tail;
  };

  return {
    serverInfoOf,
    write(catalog, type, result) {
      const text = jsonOf(result);
      if (text instanceof LongText) return text.closedBy(tailOf(catalog, type));
      return `${text.slice(0, -1)}${text === "{}" ? "" : ","}${tailOf(catalog, type)}`;
    },
  };
}
