// A run of Node's test runner, and of a test about the run itself, as one: with one count at the end.
import { run } from "node:test";

const COUNTS = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];

/**
 * The events of the suite, and then of what `lastly` finds, for one reporter.
 *
 * @param {{ files: string[], concurrency: number, timeout: number }} suite
 * @param {() => Promise<{ name: string, problem?: string }>} lastly a test about the whole run
 */
export async function* inOneReport(suite, lastly) {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, 0]));
  for await (const event of run(suite)) {
    const [name, value] = countOf(event);
    if (name) counts[name] += value;
    else yield event;
  }
  yield* oneTest(await lastly(), counts);
  for (const [name, value] of Object.entries(counts)) {
    yield { type: "test:diagnostic", data: { nesting: 0, message: `${name} ${value}` } };
  }
}

/** The suite's own counts at its end. */
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

/** Looks like a failed test's error: wrapped, without a stack that would show this file. */
function failure(problem) {
  const cause = new Error(problem);
  cause.stack = `Error: ${problem}`;
  return Object.assign(new Error(problem, { cause }), { code: "ERR_TEST_FAILURE", failureType: "testCodeFailure" });
}
