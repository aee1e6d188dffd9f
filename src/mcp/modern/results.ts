import type { Catalog, AnyOutput } from "../../host/offers/catalog.ts";
import { jsonOf } from "../../host/offers/long-result.ts";
import { LongJson, LongText, type Text } from "../../lib/long-text.ts";
import { META_SERVER_INFO } from "../revisions.ts";

type ResultType = "complete" | "input_required" | "task";

/** Writes the members that every modern result has: its type, and the server that answered. */
export class ResultWriter {
  readonly #berthVersion: string;

  constructor(berthVersion: string) {
    this.#berthVersion = berthVersion;
  }

  serverInfo(catalog: Catalog): object {
    const { server: name, release, icons } = catalog;
    return { name, version: `${this.#berthVersion}+${release}`, ...(icons && { icons }) };
  }

  write(catalog: Catalog, type: ResultType, result: object): Text {
    const meta = result instanceof LongJson ? result.meta : metaText(result);
    if (meta !== undefined) return this.#written(withoutMeta(result), this.#tailWith(catalog, type, meta));
    return this.#written(jsonOf(result), this.#tail(catalog, type));
  }

  #written(text: Text, tail: string): Text {
    if (text instanceof LongText) return text.closedBy(tail);
    return `${text.slice(0, -1)}${text === "{}" ? "" : ","}${tail}`;
  }

  /** `meta` is the JSON text of an object without the server info. */
  #tailWith(catalog: Catalog, type: ResultType, meta: string): string {
    const serverInfo = `"${META_SERVER_INFO}":${JSON.stringify(this.serverInfo(catalog))}`;
    return `"resultType":"${type}","_meta":{${serverInfo}${meta === "{}" ? "" : ","}${meta.slice(1)}}`;
  }

  #tail(catalog: Catalog, type: ResultType): string {
    const key = TAIL_KEYS[type];
    const cached = catalog.memo.get(key) as string | undefined;
    if (cached !== undefined) return cached;
    const meta = JSON.stringify({ [META_SERVER_INFO]: this.serverInfo(catalog) });
    const tail = `"resultType":"${type}","_meta":${meta}}`;
    catalog.memo.set(key, tail);
    return tail;
  }
}

function metaText({ _meta }: AnyOutput): string | undefined {
  return _meta && JSON.stringify(_meta);
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
