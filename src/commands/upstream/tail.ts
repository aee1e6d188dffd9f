import type { JsonObject } from "../../lib/json.ts";
import { perform } from "./perform.ts";
import { RecordOutput } from "./output.ts";
import { countOf, formatOf, type CountOptions } from "./options.ts";
import { reach } from "./reach.ts";

/** `berth tail <reference>`: the last records (J3). Holds no more of them than it prints. */
export function tail(reference: string, options: CountOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    const count = countOf(options);
    const output = new RecordOutput(formatOf(options));
    const { records } = await perform(reached);
    for (const record of lastOf(records, count)) await output.write(record);
    await output.end();
    return 0;
  });
}

/** The last of them in order, from a ring of that size. */
export function lastOf(records: Iterable<JsonObject>, count: number): JsonObject[] {
  const ring: JsonObject[] = [];
  let seen = 0;
  if (count > 0) for (const record of records) ring[seen++ % count] = record;
  const start = seen > count ? seen % count : 0;
  return [...ring.slice(start), ...ring.slice(0, start)];
}
