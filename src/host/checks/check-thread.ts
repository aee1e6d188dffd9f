/** The thread of `checks.ts`: makes code of schemas, and checks values that are large or intricate. */
import { parentPort } from "node:worker_threads";
import type { JsonSchema } from "../../json.ts";
import type { CheckReport, CheckTask } from "./checks.ts";
import { judgeOf } from "./schema-code.ts";

/** As many units of schemas as this are kept ready. */
const KEPT_UNITS = 4 * 1024 * 1024;

const ready = new Map<string, ReturnType<typeof judgeOf>>();
let readyUnits = 0;

const port = parentPort!;
port.on("message", (task: CheckTask) => port.postMessage(reportOf(task)));
// What every schema needs is made ready before the time of any counts.
judgeOf({ type: "object" }, { texts: false });
port.postMessage("ready");

function reportOf({ schema, texts, value, wantsCode, unitsMax }: CheckTask): CheckReport {
  let made: ReturnType<typeof judgeOf>;
  try {
    made = readyFor(schema, texts);
  } catch (error) {
    return { fault: (error as Error).message, problems: [] };
  }
  const quick = wantsCode ? { quick: made.quick } : {};
  if (value === undefined) return { problems: [], ...quick };
  const parsed: unknown = JSON.parse(value);
  const problems = made.judge(parsed);
  if (problems.length > 0) return { problems, ...quick };
  const filled = JSON.stringify(parsed);
  if (filled.length > unitsMax) {
    return { problems: [`with the defaults of its schema it has more than ${unitsMax} characters`], ...quick };
  }
  return { problems, ...quick, ...(filled !== value && { filled }) };
}

function readyFor(schema: string, texts: boolean): ReturnType<typeof judgeOf> {
  const key = `${texts ? "texts" : "values"} ${schema}`;
  const known = ready.get(key);
  if (known) return known;
  const made = judgeOf(JSON.parse(schema) as JsonSchema, { texts });
  ready.set(key, made);
  readyUnits += key.length;
  for (const oldest of ready.keys()) {
    if (readyUnits <= KEPT_UNITS) break;
    ready.delete(oldest);
    readyUnits -= oldest.length;
  }
  return made;
}
