import { jsonOf } from "../../host/calls/long-result.ts";
import type { Catalog, AnyOutput } from "../../host/catalog/catalog.ts";
import type { JsonObject } from "../../lib/json.ts";
import { LongJson, LongText, type Text } from "../../lib/long-text.ts";
import { META_SERVER_INFO } from "../revisions.ts";

/** `task` belongs to the tasks extension (SEP-2663). */
type ResultType = "complete" | "input_required" | "task";

/** Writes the members that every modern result has: its type, and the server that answered. */
export class ResultWriter {
  readonly #berthVersion: string;

  constructor(berthVersion: string) {
    this.#berthVersion = berthVersion;
  }

  serverInfo(catalog: Catalog): object {
    return { name: catalog.server, version: `${this.#berthVersion}+${catalog.release}` };
  }

  write(catalog: Catalog, type: ResultType, result: object): Text {
    const { _meta: meta } = result as AnyOutput;
    if (meta) return this.#written(withoutMeta(result), this.#tailWith(catalog, type, meta));
    return this.#written(jsonOf(result), this.#tail(catalog, type));
  }

  #written(text: Text, tail: string): Text {
    if (text instanceof LongText) return text.closedBy(tail);
    return `${text.slice(0, -1)}${text === "{}" ? "" : ","}${tail}`;
  }

  #tailWith(catalog: Catalog, type: ResultType, meta: JsonObject): string {
    return `"resultType":"${type}","_meta":${JSON.stringify({ ...meta, [META_SERVER_INFO]: this.serverInfo(catalog) })}}`;
  }

  #tail(catalog: Catalog, type: ResultType): string {
    const key = TAIL_KEYS[type];
    const known = catalog.memo.get(key) as string | undefined;
    if (known !== undefined) return known;
    const meta = JSON.stringify({ [META_SERVER_INFO]: this.serverInfo(catalog) });
    const tail = `"resultType":"${type}","_meta":${meta}}`;
    catalog.memo.set(key, tail);
    return tail;
  }
}

function withoutMeta(result: AnyOutput): Text {
  if (result instanceof LongJson) return result.text;
  const { _meta, ...others } = result;
  return JSON.stringify(others);
}

const TAIL_KEYS: Readonly<Record<ResultType, string>> = {
  complete: "modern:tail:complete",
  input_required: "modern:tail:input_required",
  task: "modern:tail:task",
};
