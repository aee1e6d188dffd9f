import { checkAnswer, load } from "./load.mjs";
import {
  benchCpuMicros,
  cpuMicros,
  cpuMicrosOf,
  descendants,
  machineCpuMicros,
  peakMemoryKb,
  peakMemoryKbOf,
} from "./proc.mjs";
import { startServer } from "./server-process.mjs";

/**
 * The rounds: every trial once a round, each contestant freshly started and alone, in a rotated order so that a drift
 * of the machine affects all alike.
 *
 * @typedef {{
 *   requestsPerSecond: number, p50Ms: number, p99Ms: number, cpuMicros: number, guestCpuMicros: number,
 *   memoryPeakMb: number, guestMemoryPeakMb: number, listeningMs: number,
 *   serverBusy: number, generatorBusy: number, othersBusy: number,
 * }} Sample
 * `cpuMicros` a request, of the serving process; `…Busy` are shares of one core. Where the server's is far below one,
 * something else set the pace.
 * @typedef {import("./contestants.mjs").Trial} Trial
 */

/**
 * @param {Trial[]} trials
 * @param {{ rounds: number, seconds: number, warmUpSeconds: number }} length
 * @param {(line: string) => void} say
 * @returns {Promise<Map<Trial, Sample[]>>}
 */
export async function runRounds(trials, { rounds, seconds, warmUpSeconds }, say) {
  /** @type {Map<Trial, Sample[]>} */
  const samples = new Map(trials.map((trial) => [trial, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const trial of round % 2 === 1 ? trials : trials.toReversed()) {
      const sample = await runTrial(trial, seconds, warmUpSeconds);
      samples.get(trial).push(sample);
      const speed = Math.round(sample.requestsPerSecond).toLocaleString("en");
      say(`round ${round}/${rounds}  tools/${trial.kind}  ${trial.title.padEnd(28)} ${speed.padStart(8)} requests/s`);
    }
  }
  return samples;
}

/** @param {Trial} trial @returns {Promise<Sample>} */
async function runTrial(trial, seconds, warmUpSeconds) {
  const server = await startServer(trial.launch);
  try {
    const answerBytes = await checkAnswer(server.port, trial.request);
    await load(server.port, trial.request, warmUpSeconds, answerBytes);
    const guests = trial.guests ? descendants(server.pid) : [];
    const before = readings(server.pid, guests);
    const result = await load(server.port, trial.request, seconds, answerBytes);
    const used = difference(readings(server.pid, guests), before);
    await checkAnswer(server.port, trial.request);
    return {
      requestsPerSecond: result.requestsPerSecond,
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      cpuMicros: used.server / result.requests,
      guestCpuMicros: used.guests / result.requests,
      memoryPeakMb: peakMemoryKb(server.pid) / 1024,
      guestMemoryPeakMb: peakMemoryKbOf(guests) / 1024,
      listeningMs: server.listeningMs,
      serverBusy: used.server / used.clock,
      generatorBusy: used.bench / used.clock,
      othersBusy: Math.max(0, used.machine - used.server - used.guests - used.bench) / used.clock,
    };
  } catch (error) {
    throw new Error(`${trial.title}, tools/${trial.kind}: ${error.message}`, { cause: error });
  } finally {
    await server.stop();
  }
}

/** Microseconds of CPU so far, and of the clock. */
function readings(pid, guests) {
  return {
    server: cpuMicros(pid),
    guests: cpuMicrosOf(guests),
    bench: benchCpuMicros(),
    machine: machineCpuMicros(),
    clock: performance.now() * 1000,
  };
}

function difference(later, earlier) {
  return Object.fromEntries(Object.keys(later).map((key) => [key, later[key] - earlier[key]]));
}

/** Field by field. @template {Record<string, number>} T @param {T[]} samples @returns {T} */
export function medians(samples) {
  const fields = Object.keys(samples[0]);
  return /** @type {T} */ (
    Object.fromEntries(fields.map((field) => [field, median(samples.map((sample) => sample[field]))]))
  );
}

/** @param {number[]} values at least one */
export function median(values) {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param {number[]} values at least one @param {number} share from 0 to 1 */
export function percentile(values, share) {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
