import { perform } from "./perform.ts";
import { RecordOutput } from "./output.ts";
import { countOf, formatOf, type CountOptions } from "./options.ts";
import { reach } from "./reach.ts";

/** `berth head <reference>`: the first records (J3). */
export function head(reference: string, options: CountOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    let left = countOf(options);
    const output = new RecordOutput(formatOf(options));
    const { records } = await perform(reached);
    for (const record of records) {
      if (left-- <= 0) break;
      await output.write(record);
    }
    await output.end();
    return 0;
  });
}
