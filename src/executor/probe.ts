import {
  findSandboxTools,
  firstWorking,
  librariesOf,
  nobodyForRoot,
  sandboxAdvice,
  type NoSandbox,
} from "../processes/sandbox.ts";
import { startDirectly } from "../starter/starter.ts";
import { failure } from "./failures.ts";
import { GuestProcess } from "./guest-process.ts";
import { toHost } from "./guest/wire.mts";
import type { Launcher, LauncherLimits } from "./launcher.ts";
import { sandboxedLauncher, type SandboxParts } from "./sandboxed.ts";
import { runToEnd } from "./script-process.ts";

/** Finds out whether guests and scripts run in the sandbox on this machine, by running them. */
export type Probe = { readonly launcher: Launcher } | NoSandbox;

const PROBE_MS = 10_000;

export async function probeSandbox(node: { file: string; major: number }, limits: LauncherLimits): Promise<Probe> {
  const tools = findSandboxTools();
  if ("reason" in tools) return tools;
  const asNobody = nobodyForRoot();
  const parts = { ...tools, node: { ...node, libraries: await librariesOf(node.file) } };
  const launcherOf = (variant: Partial<SandboxParts>): Launcher =>
    sandboxedLauncher({ ...parts, ...(asNobody && { scriptUser: asNobody }), proc: true, ...variant }, limits);

  // Root's guests become nobody where Berth's own files allow it; nobody cannot read what stands in root's home.
  const users: readonly Partial<SandboxParts>[] = asNobody ? [{ guestUser: asNobody }, {}] : [{}];
  const guest = await firstWorking(users, (variant) => guestProblem(launcherOf(variant)));
  if ("problem" in guest) return { reason: `the sandbox does not start here (${guest.problem}): ${sandboxAdvice}` };
  // Some containers forbid to mount a /proc.
  const folders = [guest.works, { ...guest.works, proc: false }];
  const script = await firstWorking(folders, (variant) => scriptProblem(launcherOf(variant)));
  if ("problem" in script)
    return { reason: `the sandbox does not run scripts here (${script.problem}): ${sandboxAdvice}` };
  return { launcher: launcherOf(script.works) };
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
