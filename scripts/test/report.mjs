// Several runs of Node's test runner as one: their events one after the other, and one count at the end.
import { run } from "node:test";

const COUNTS = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];

/**
 * The events of each phase, and then of what `lastly` finds, for one reporter. The next phase begins when the last has
 * ended, however it has.
 *
 * @param {readonly { files: string[], concurrency: number }[]} phases
 * @param {() => Promise<{ name: string, problem?: string }>} lastly a test about the whole run
 */
export async function* inOneReport(phases, lastly) {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, 0]));
  for (const phase of phases) {
    for await (const event of run(phase)) {
      const [name, value] = countOf(event);
      if (name) counts[name] += value;
      else yield event;
    }
  }
  yield* oneTest(await lastly(), counts);
  for (const [name, value] of Object.entries(counts)) {
    yield { type: "test:diagnostic", data: { nesting: 0, message: `${name} ${value}` } };
  }
}

/** What a phase says at its end about itself. */
function countOf({ type, data }) {
  if (type !== "test:diagnostic" || data.nesting !== 0) return [];
  const [name, value, ...more] = data.message.split(" ");
  return COUNTS.includes(name) && more.length === 0 ? [name, Number(value)] : [];
}

function* oneTest({ name, problem }, counts) {
  const where = { file: import.meta.filename, line: 1, column: 1 };
  const data = { name, nesting: 0, testNumber: counts.tests + 1, ...where };
  counts.tests++;
  counts[problem === undefined ? "pass" : "fail"]++;
  yield { type: "test:start", data };
  if (problem === undefined) yield { type: "test:pass", data: { ...data, details: { duration_ms: 0 } } };
  else yield { type: "test:fail", data: { ...data, details: { duration_ms: 0, error: failure(problem) } } };
}

/** As a failed test's error looks: wrapped, without a stack that would tell of this file. */
function failure(problem) {
  const cause = new Error(problem);
  cause.stack = `Error: ${problem}`;
  return Object.assign(new Error(problem, { cause }), { code: "ERR_TEST_FAILURE", failureType: "testCodeFailure" });
}
