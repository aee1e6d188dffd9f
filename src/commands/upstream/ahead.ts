import { readConfig } from "../../config.ts";
import { BerthError } from "../../errors.ts";
import { Child } from "../../upstream/child.ts";
import { commandOf } from "../../upstream/command.ts";
import type { Launch } from "../../upstream/launch.ts";
import { parseLauncher } from "../../upstream/launcher.ts";
import { interruption } from "./interruption.ts";

/**
 * Starts the server that a command line names before the command itself is loaded: both take their time, and this way
 * at once. So nothing is imported here but what a start needs. Whatever is wrong with the command line is left for the
 * command to say; a server that it does not take is ended.
 */
export function startAhead([command = "", ...rest]: readonly string[]): void {
  const references = rest.filter((argument) => argument.startsWith("mcp+"));
  if (!reaching.has(command) || references.length !== 1 || rest.some((argument) => helps.has(argument))) return;
  const { launch } = parseLauncher(references[0]!);
  if (!launch || "url" in launch) return;
  try {
    const { limits } = readConfig(process.env);
    const child = new Child(commandOf(launch, { env: process.env, folder: process.cwd() }), limits);
    ahead = { uri: launch.uri, child };
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    return;
  }
  process.once("exit", abandon);
  // Whoever interrupts from here on finds the server ended.
  interruption();
}

/** The server, if it was started ahead for this very launch. It belongs to the caller from here on. */
export function takeAhead({ uri }: Launch): Child | undefined {
  return ahead?.uri === uri ? release() : undefined;
}

/** Ends a server that nobody has taken. */
export async function dropAhead(): Promise<void> {
  const child = release();
  if (!child) return;
  await child.end();
  interruption().close();
}

const reaching: ReadonlySet<string> = new Set(["inspect", "cat", "head", "tail", "put"]);
const helps: ReadonlySet<string> = new Set(["-h", "--help"]);

let ahead: { readonly uri: string; readonly child: Child } | undefined;

function release(): Child | undefined {
  const child = ahead?.child;
  ahead = undefined;
  process.removeListener("exit", abandon);
  return child;
}

/** There is no time left to end it in good order. */
function abandon(): void {
  release()?.abandon();
}
