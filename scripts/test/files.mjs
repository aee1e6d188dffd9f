// The processes of test files while they run: which tests each is in, and where one is that does not end.
import { basename } from "node:path";
import { childrenOf, commandOf, whereIs } from "./where.mjs";

const LOOK_MS = 5_000;

/** Tells where each file's process is that has run for `lateMs`, and where all of them are whenever it is asked to. */
export class TestFiles {
  #files;
  #tell;
  /** Tests that have begun and not ended, by the file's name without its ending; sources and what is compiled share it. */
  #tests = new Map();
  /** Since when a process runs. */
  #since = new Map();

  /**
   * @param {string[]} files
   * @param {number} lateMs
   * @param {(text: string) => void} tell
   */
  constructor(files, lateMs, tell) {
    this.#files = files;
    this.#tell = tell;
    setInterval(() => this.#look(lateMs), LOOK_MS).unref();
  }

  /** An event of Node's test runner. */
  note({ type, data }) {
    if (!data?.file || data.name === undefined || basename(data.file) === basename(data.name)) return;
    const file = nameOf(data.file);
    if (!this.#tests.has(file)) this.#tests.set(file, new Map());
    const test = `${data.line}:${data.column} ${data.name}`;
    if (type === "test:dequeue") this.#tests.get(file).set(test, data.name);
    if (type === "test:complete" || type === "test:pass" || type === "test:fail") this.#tests.get(file).delete(test);
  }

  async sayAll() {
    for (const { pid, file } of this.#processes()) await this.#say(pid, file);
  }

  endAll() {
    for (const { pid } of this.#processes()) process.kill(pid);
  }

  #look(lateMs) {
    const now = Date.now();
    for (const { pid, file } of this.#processes()) {
      const since = this.#since.get(pid) ?? now;
      this.#since.set(pid, now - since < lateMs ? since : Infinity);
      if (now - since >= lateMs) void this.#say(pid, file);
    }
  }

  async #say(pid, file) {
    const names = [...(this.#tests.get(nameOf(file))?.values() ?? [])];
    const lines = [...names.map((name) => `in the test or suite "${name}"`), ...(await whereIs(pid))];
    this.#tell(`${file} has not ended:\n${lines.map((line) => `  ${line}\n`).join("")}`);
  }

  #processes() {
    return childrenOf(process.pid).flatMap((pid) => {
      const file = this.#files.find((each) => commandOf(pid).includes(each));
      return file === undefined ? [] : [{ pid, file }];
    });
  }
}

function nameOf(file) {
  return basename(file).replace(/\.\w+$/, "");
}
