import { readConfig } from "../../../config.ts";
import { BerthError } from "../../../lib/errors.ts";
import { defaultLimits } from "../../../limits/limits.ts";
import { buildCommand } from "../../../upstream/launch/command.ts";
import type { Launch, ProgramLaunch } from "../../../upstream/launch/launch.ts";
import { parseLauncher } from "../../../upstream/launch/launcher-uri.ts";
import { startChild, type Child } from "../../../upstream/transport/child.ts";
import { Interruption } from "./interruption.ts";

const reaching: ReadonlySet<string> = new Set(["inspect", "cat", "head", "tail", "put"]);
const helps: ReadonlySet<string> = new Set(["-h", "--help"]);

/**
 * Starts the server named on a command line while the command itself is being loaded, since both take time. This file
 * therefore imports only what a start needs. Errors in the command line are left for the command to report.
 */
export function startAhead([command = "", ...rest]: readonly string[]): Ahead | undefined {
  const references = rest.filter((argument) => argument.startsWith("mcp+"));
  if (!reaching.has(command) || references.length !== 1 || rest.some((argument) => helps.has(argument))) return;
  const { launch } = parseLauncher(references[0]!);
  if (!launch || "url" in launch) return;
  // The user may interrupt as soon as the server runs.
  const interruption = new Interruption();
  try {
    return new Ahead(launch, interruption);
  } catch (error) {
    interruption.close();
    if (error instanceof BerthError) return;
    throw error;
  }
}

/** A server that was started ahead of the command that uses it. */
export class Ahead {
  /** The interruption of the whole command: it ends the server, even while it starts. */
  readonly interruption: Interruption;
  readonly #uri: string;
  #starting: Promise<Child> | undefined;
  #child: Child | undefined;
  /** The process exits without having used the server: there is no time for an orderly shutdown. */
  readonly #abandon = (): void => this.#child?.abandon();

  constructor(launch: ProgramLaunch, interruption: Interruption) {
    this.interruption = interruption;
    const { env } = process;
    // Most environments set neither, and reading the whole configuration takes time.
    const isUsual = env["BERTH_BODY_BYTES"] === undefined && env["BERTH_OUTPUT_BYTES"] === undefined;
    const limits = isUsual ? defaultLimits : readConfig(env).limits;
    this.#uri = launch.uri;
    this.#starting = startChild(buildCommand(launch, { env, folder: process.cwd() }), { limits });
    // The command that uses it receives the error.
    this.#starting.then(
      (child) => (this.#child = child),
      () => {},
    );
    process.once("exit", this.#abandon);
  }

  /** Returns the server if it was started for this launch. The caller then owns it. */
  take({ uri }: Launch): Promise<Child> | undefined {
    return uri === this.#uri ? this.#release() : undefined;
  }

  /** Ends the server if no command uses it. */
  async drop(): Promise<void> {
    const child = await this.#release()?.catch(() => undefined);
    await child?.end();
    this.interruption.close();
  }

  #release(): Promise<Child> | undefined {
    const starting = this.#starting;
    this.#starting = undefined;
    process.removeListener("exit", this.#abandon);
    return starting;
  }
}
