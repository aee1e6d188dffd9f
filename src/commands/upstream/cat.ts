import { perform } from "./perform.ts";
import { RecordOutput } from "./output.ts";
import { formatOf, type RecordOptions } from "./options.ts";
import { reach } from "./reach.ts";

/** `berth cat <reference>`: all records of a call, a resource, a prompt or a list (J3). */
export function cat(reference: string, options: RecordOptions): Promise<number> {
  return reach(reference, { ...options, attended: true }, async (reached) => {
    const output = new RecordOutput(formatOf(options));
    const { whole, records } = await perform(reached);
    if (options.raw) await output.json(whole);
    else {
      for (const record of records) await output.write(record);
      await output.end();
    }
    return 0;
  });
}
