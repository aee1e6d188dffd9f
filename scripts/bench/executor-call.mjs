// Measures a warm call into a guest, without any protocol around it: `node scripts/bench/executor-call.mjs`.
// Options: --mode sandboxed|trusted, --flight N (calls in flight), --seconds N, --json.
import { parseArgs } from "node:util";
import { openExecutor } from "../../dist/src/executor/open-executor.js";
import { defaultLimits } from "../../dist/src/limits/limits.js";

const { values } = parseArgs({
  options: {
    mode: { type: "string", default: "auto" },
    flight: { type: "string", default: "20" },
    seconds: { type: "string", default: "3" },
    json: { type: "boolean", default: false },
  },
});
const flight = Number(values.flight);

const executor = await openExecutor({ mode: values.mode, limits: defaultLimits });
const code = "export function echo(message, times) { return times > 1 ? message.repeat(times) : message }";
const program = { tenant: "default", bundle: "bench", code: () => Promise.resolve(code) };
const shape = { export: "echo", style: "positional", params: ["message", "times"] };
const args = { message: "x".repeat(200), times: 1 };

async function measure(calls, ms) {
  const latencies = [];
  const until = performance.now() + ms;
  const cpu = process.cpuUsage();
  const start = performance.now();
  const worker = async () => {
    for (let now = performance.now(); now < until;) {
      const outcome = await executor.call(program, { shape, args, deadlineMs: 10_000 });
      if (!outcome.ok) throw new Error(outcome.error.message);
      const end = performance.now();
      latencies.push(end - now);
      now = end;
    }
  };
  await Promise.all(Array.from({ length: calls }, worker));
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  const at = (share) => Number((latencies[Math.floor(latencies.length * share)] * 1000).toFixed(1));
  return {
    inFlight: calls,
    callsPerSecond: Math.round(latencies.length / seconds),
    hostMicrosecondsPerCall: Number(((user + system) / latencies.length).toFixed(1)),
    p50Microseconds: at(0.5),
    p99Microseconds: at(0.99),
  };
}

await measure(flight, 1000);
const results = [await measure(1, Number(values.seconds) * 1000), await measure(flight, Number(values.seconds) * 1000)];
if (values.json) console.log(JSON.stringify({ isolation: executor.isolation, results }));
else {
  console.log(`isolation: ${executor.isolation}`);
  console.table(results);
}
await executor.close();
