import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { cliFor } from "./commands.ts";
import { Watchers } from "./watchers.ts";

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
  readonly #watchers = new Watchers();

  constructor(args: readonly string[], env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [cliFor("stdio", env), "stdio", ...args], { env: { ...process.env, ...env } });
    this.child.stderr!.setEncoding("utf8").on("data", (chunk: string) => (this.stderr += chunk));
    this.child.stdin!.on("error", () => {});
    this.ended = new Promise((resolveEnded) => {
      this.child.once("close", (code, signal) => {
        this.#watchers.end();
        resolveEnded(code ?? signal ?? "unknown");
      });
    });
    createInterface({ input: this.child.stdout! }).on("line", (line) => {
      this.said.push(JSON.parse(line));
      this.#watchers.look();
    });
  }

  send(...messages: unknown[]): void {
    for (const message of messages) {
      this.child.stdin!.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`);
    }
  }

  /** The first message for which `is` holds; rejects when the process ends before, or after a minute. */
  until(is: (message: Said) => boolean): Promise<Said> {
    const describe = (): string => `not said: ${JSON.stringify(this.said).slice(-2000)} ${this.stderr}`;
    return this.#watchers.until(() => this.said.find(is), describe);
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
