import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { startDirectly } from "../starter/starter.ts";
import { GuestProcess } from "./guest-process.ts";
import { toHost } from "./guest/wire.mts";
import { failure } from "./failures.ts";
import { runToEnd } from "./script-process.ts";
import type { Launcher, LauncherLimits } from "./launcher.ts";
import { sandboxedLauncher, type SandboxParts } from "./sandboxed.ts";

/**
 * Finds out whether the sandbox works on this machine, by running it. Having the programs is not enough: containers and
 * distributions forbid namespaces in many ways.
 */
export type Probe = { readonly launcher: Launcher } | { readonly reason: string };

const PROBE_MS = 10_000;
const NOBODY = { uid: 65_534, gid: 65_534 };
const advice = "install bubblewrap 0.8 or newer (node scripts/setup.mjs) and let this user create user namespaces";

export async function probeSandbox(node: { file: string; major: number }, limits: LauncherLimits): Promise<Probe> {
  if (process.platform !== "linux") return { reason: `the sandbox needs Linux, this is ${process.platform}` };
  const bwrap = findProgram("bwrap");
  if (!bwrap) return { reason: `bwrap is not installed: ${advice}` };
  const prlimit = findProgram("prlimit");
  if (!prlimit) return { reason: "prlimit is not installed: install util-linux" };

  const asNobody = process.getuid?.() === 0 ? NOBODY : undefined;
  const parts = { bwrap, prlimit, node: { ...node, libraries: await librariesOf(node.file) } };
  const launcherOf = (variant: Partial<SandboxParts>): Launcher =>
    sandboxedLauncher({ ...parts, ...(asNobody && { scriptUser: asNobody }), proc: true, ...variant }, limits);

  // Root's guests become nobody where Berth's own files allow it; nobody cannot read what stands in root's home.
  const guest = await firstWithout(guestProblem, asNobody ? [{ guestUser: asNobody }, {}] : [{}], launcherOf);
  if ("problem" in guest) return { reason: `the sandbox does not start here (${guest.problem}): ${advice}` };
  // Some containers forbid to mount a /proc.
  const script = await firstWithout(scriptProblem, [guest, { ...guest, proc: false }], launcherOf);
  if ("problem" in script) return { reason: `the sandbox does not run scripts here (${script.problem}): ${advice}` };
  return { launcher: launcherOf(script) };
}

/** The first variant that works, or what is wrong with the last. */
async function firstWithout(
  problemOf: (launcher: Launcher) => Promise<string | undefined>,
  variants: readonly Partial<SandboxParts>[],
  launcherOf: (variant: Partial<SandboxParts>) => Launcher,
): Promise<Partial<SandboxParts> | { readonly problem: string }> {
  let problem = "";
  for (const variant of variants) {
    const found = await problemOf(launcherOf(variant));
    if (found === undefined) return variant;
    problem = found;
  }
  return { problem };
}

function guestProblem(launcher: Launcher): Promise<string | undefined> {
  return new Promise((resolve) => {
    let problem: string | undefined = `no guest was ready after ${PROBE_MS} ms`;
    const end = (): void => guest.kill(failure("evicted", problem ?? "done"));
    const timer = setTimeout(end, PROBE_MS);
    const guest = new GuestProcess(startDirectly, launcher.guest, 1024, {
      onFrame: (frame) => {
        if (frame[0] !== toHost.ready) return;
        problem = undefined;
        end();
      },
      onEnded: (error) => {
        clearTimeout(timer);
        resolve(problem && (guest.stderr.trim().split("\n")[0] || error.message));
      },
    });
  });
}

async function scriptProblem(launcher: Launcher): Promise<string | undefined> {
  const command = launcher.script({ interpreter: "sh", argv: ["works"], env: {}, deadlineMs: PROBE_MS });
  const run = runToEnd(startDirectly, command, 'echo "$1"', 1024);
  const timer = setTimeout(run.kill, PROBE_MS);
  const { stdout, stderr } = await run.ended;
  clearTimeout(timer);
  return stdout.toString() === "works\n" ? undefined : stderr.trim().split("\n")[0] || "scripts do not run in it";
}

function findProgram(name: string): string | undefined {
  const folders = (process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter);
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The shared libraries of Node's binary, so that the sandbox holds these and no others. */
async function librariesOf(file: string): Promise<string[]> {
  try {
    const { stdout } = await promisify(execFile)("ldd", [file]);
    return [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((match) => match[1]!);
  } catch {
    // A binary without shared libraries.
    return [];
  }
}
