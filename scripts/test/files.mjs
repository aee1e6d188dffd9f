// The processes of tests while they run: the current tests of each, and the place where a process hangs.
import { childrenOf, commandOf, whereIs } from "./where.mjs";

const LOOK_MS = 5_000;

/**
 * Reports where each process is that has run for `lateMs`, and on request where all of them are. Ends each that has run
 * for `endMs`: the limit of Node's runner applies to a file up to Node 22, and later to each test alone.
 */
export class TestFiles {
  #processes;
  #tell;
  /**
   * Tests that have begun and not ended, by the file's path in `test` without its ending, which source and compiled file share.
   */
  #tests = new Map();
  /** When each process was first seen, by the file that it was started with: a process id may be used again. */
  #since = new Map();
  /** The processes that were reported as late. */
  #late = new Set();

  /**
   * @param {Map<string, string[]>} processes the files that each process runs, by the one that it is started with
   * @param {{ lateMs: number, endMs: number }} limits
   * @param {(text: string) => void} tell
   */
  constructor(processes, limits, tell) {
    this.#processes = processes;
    this.#tell = tell;
    setInterval(() => this.#look(limits), LOOK_MS).unref();
  }

  /** An event of Node's test runner. */
  note({ type, data }) {
    if (!data?.file || data.name === undefined || nameOf(data.file) === nameOf(data.name)) return;
    const file = nameOf(data.file);
    if (!this.#tests.has(file)) this.#tests.set(file, new Map());
    const test = `${data.line}:${data.column} ${data.name}`;
    if (type === "test:dequeue") this.#tests.get(file).set(test, data.name);
    if (type === "test:complete" || type === "test:pass" || type === "test:fail") this.#tests.get(file).delete(test);
  }

  async sayAll() {
    for (const { pid, entry } of this.#running()) await this.#say(pid, entry);
  }

  endAll() {
    for (const { pid } of this.#running()) endTree(pid);
  }

  #look({ lateMs, endMs }) {
    const now = Date.now();
    for (const { pid, entry } of this.#running()) {
      const since = this.#since.get(entry) ?? now;
      this.#since.set(entry, since);
      if (now - since >= endMs) {
        this.#tell(`${entry} was ended: it had not ended by itself within ${endMs / 1_000} s\n`);
        endTree(pid);
      } else if (now - since >= lateMs && !this.#late.has(entry)) {
        this.#late.add(entry);
        void this.#say(pid, entry);
      }
    }
  }

  async #say(pid, entry) {
    const namesIn = (file) => [...(this.#tests.get(nameOf(file))?.values() ?? [])];
    const tests = this.#processes
      .get(entry)
      .flatMap((file) => namesIn(file).map((name) => `in the test or suite "${name}" of ${file}`));
    const lines = [...tests, ...(await whereIs(pid))];
    this.#tell(`${entry} has not ended:\n${lines.map((line) => `  ${line}\n`).join("")}`);
  }

  #running() {
    return childrenOf(process.pid).flatMap((pid) => {
      const entry = [...this.#processes.keys()].find((each) => commandOf(pid).includes(each));
      return entry === undefined ? [] : [{ pid, entry }];
    });
  }
}

/** Processes with a browser would not end by themselves, and nobody else ends what they have started. */
function endTree(pid) {
  const started = childrenOf(pid);
  process.kill(pid, "SIGKILL");
  for (const child of started) endTree(child);
}

function nameOf(file) {
  return file.replace(/^(?:.*\/)?(?:dist\/)?test\//, "").replace(/\.\w+$/, "");
}
