import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { cliFor } from "./commands.ts";
import { Watchers } from "./watchers.ts";

/** `berth dev` as a process, in a folder of its own. */
export interface Dev {
  readonly url: string;
  readonly folder: string;
  /** Its folder for temporary data. */
  readonly temporary: string;
  output(): string;
  /** Resolves when the output so far matches, before or after the call. */
  printed(pattern: RegExp): Promise<void>;
  stop(): Promise<void>;
}

export async function startDev(
  t: { after(end: () => unknown): void },
  files: Record<string, string>,
  args: readonly string[],
  { env = {}, ...options }: { readonly folder?: string; readonly env?: Record<string, string> } = {},
): Promise<Dev> {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), "berth-dev-test-")));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  const temporary = await mkdtemp(join(tmpdir(), "berth-dev-test-"));
  const child = spawnDev(folder, args, { TMPDIR: temporary, ...env });
  let output = "";
  const watchers = new Watchers();
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
    watchers.look();
  });
  const ended = new Promise<void>((resolveEnded) => child.once("close", () => resolveEnded()));
  const stop = async (): Promise<void> => {
    child.kill("SIGINT");
    await ended;
  };
  t.after(async () => {
    await stop();
    for (const each of [folder, temporary]) await rm(each, { recursive: true, force: true });
  });
  const printed = async (pattern: RegExp): Promise<void> =>
    void (await watchers.until(
      () => pattern.exec(output) ?? undefined,
      () => `not printed: ${pattern}\n${output}`,
    ));
  await printed(/Berth watches the files/);
  const url = /(http:\/\/[^/]+)\/mcp\//.exec(output)![1]!;
  return { url, folder, temporary, output: () => output, printed, stop };
}

function spawnDev(cwd: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  // Berth warns of settings that it does not know.
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BERTH_TEST_")));
  const options: SpawnOptions = { cwd, env: { ...inherited, ...env }, stdio: ["ignore", "ignore", "pipe"] };
  return spawn(process.execPath, [cliFor("dev", env), "dev", "--port", "0", ...args], options);
}
