import { perform } from "./upstream/perform.ts";
import { RecordOutput } from "./upstream/output.ts";
import { formatOf, type RecordOptions } from "./upstream/options.ts";
import { reach } from "./upstream/reach.ts";

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
