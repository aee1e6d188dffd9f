import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { cliFor } from "./commands.ts";

/** A message of either side; tests look into it freely. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Said = any;

/** `berth stdio` as a client starts it, spoken to by hand. Every line on its standard output must be a message. */
export class StdioSession {
  readonly child: ChildProcess;
  readonly said: Said[] = [];
  /** The exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
  stderr = "";
  #isOver = false;
  readonly #watchers = new Set<() => void>();

  constructor(args: readonly string[], env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [cliFor("stdio", env), "stdio", ...args], { env: { ...process.env, ...env } });
    this.child.stderr!.setEncoding("utf8").on("data", (chunk: string) => (this.stderr += chunk));
    this.child.stdin!.on("error", () => {});
    this.ended = new Promise((resolveEnded) => {
      this.child.once("close", (code, signal) => {
        this.#isOver = true;
        this.#tell();
        resolveEnded(code ?? signal ?? "unknown");
      });
    });
    createInterface({ input: this.child.stdout! }).on("line", (line) => {
      this.said.push(JSON.parse(line));
      this.#tell();
    });
  }

  send(...messages: unknown[]): void {
    for (const message of messages) {
      this.child.stdin!.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`);
    }
  }

  /** The first message for which `is` holds; rejects when the process ends before, or after a minute. */
  until(is: (message: Said) => boolean): Promise<Said> {
    return new Promise((resolveFound, reject) => {
      const stop = (): void => {
        clearTimeout(timer);
        this.#watchers.delete(watcher);
      };
      const give = (): void => {
        stop();
        reject(new Error(`not said: ${JSON.stringify(this.said).slice(-2000)} ${this.stderr}`));
      };
      const timer = setTimeout(give, 240_000);
      const watcher = (): void => {
        const found = this.said.find(is);
        if (found === undefined) {
          if (this.#isOver) give();
          return;
        }
        stop();
        resolveFound(found);
      };
      this.#watchers.add(watcher);
      watcher();
    });
  }

  #tell(): void {
    for (const watcher of this.#watchers) watcher();
  }

  answer(id: string | number | null): Promise<Said> {
    return this.until((message) => message.id === id && ("result" in message || "error" in message));
  }

  async initialize(version = "2025-11-25", capabilities: object = {}): Promise<Said> {
    const params = { protocolVersion: version, capabilities, clientInfo: { name: "test", version: "1" } };
    this.send({ jsonrpc: "2.0", id: "init", method: "initialize", params });
    const answer = await this.answer("init");
    this.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return answer;
  }

  /** Ends standard input, and waits for the end. */
  end(): Promise<number | string> {
    this.child.stdin!.end();
    return this.ended;
  }
}
