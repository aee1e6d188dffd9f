import type { Config } from "../../config.ts";
import { findContainer, findSandboxObstacle, type SandboxObstacle } from "../../processes/sandbox-obstacle.ts";
import type { Diagnosis, Machine } from "./finding.ts";

/** Tries the sandbox, and attributes a failure to one of the parts that it needs. */
export async function checkSandbox(
  machine: Machine,
  { guests, limits }: Pick<Config, "guests" | "limits">,
): Promise<Diagnosis[]> {
  const version = /(\d+\.\d+(?:\.\d+)?)/.exec(await machine.run("bwrap", ["--version"]))?.[1];
  const trial = await machine.trySandbox(limits);
  const failed = "reason" in trial;
  const obstacle = failed
    ? findSandboxObstacle(trial.problem ?? trial.reason, machine)
    : trial.lacks === undefined
      ? undefined
      : findSandboxObstacle(isOld(version) ? "unknown option" : "Can't mount proc", machine);
  const parts = machine.platform === "linux" ? sandboxParts(machine, version) : [];
  const status = failed ? "failed" : "degraded";
  return [
    ...parts.map(({ kind, check, fact }): Diagnosis => {
      if (obstacle?.kind !== kind) return { check, status: "pass", message: fact };
      return { check, status, message: `${obstacle.cause} (${fact})`, fix: obstacle.fix };
    }),
    sandboxFinding(trial, guests, parts.some(({ kind }) => kind === obstacle?.kind) ? undefined : obstacle),
  ];
}

/** `unattributed`: an obstacle that none of the parts reports. */
function sandboxFinding(
  trial: Awaited<ReturnType<Machine["trySandbox"]>>,
  guests: Config["guests"],
  unattributed: SandboxObstacle | undefined,
): Diagnosis {
  const check = "sandbox";
  const fix = unattributed && { fix: unattributed.fix };
  if ("reason" in trial) {
    const cause = unattributed ? `: ${unattributed.cause}` : "";
    const message = `code cannot be isolated (${trial.problem ?? trial.reason})${cause}`;
    return { check, status: "failed", message, ...fix };
  }
  if (guests === "trusted") {
    const message = "it works here, but BERTH_GUESTS=trusted turns it off";
    return { check, status: "degraded", message, fix: "set BERTH_GUESTS=sandboxed" };
  }
  if (trial.lacks !== undefined)
    return { check, status: "degraded", message: `reduced profile: ${trial.lacks}`, ...fix };
  return { check, status: "pass", message: "a guest and a script ran in the complete sandbox" };
}

interface Part {
  readonly kind: SandboxObstacle["kind"];
  readonly check: string;
  readonly fact: string;
}

function sandboxParts(machine: Machine, version: string | undefined): Part[] {
  const setting = (name: string): string => machine.read(`/proc/sys/${name}`).trim();
  const status = machine.read("/proc/self/status");
  const filters = /^Seccomp:\s*2$/m.test(status) ? "a filter is active" : "no filter is active";
  const container = findContainer(machine);
  const [most, clone] = [setting("user/max_user_namespaces"), setting("kernel/unprivileged_userns_clone")];
  const apparmor = setting("kernel/apparmor_restrict_unprivileged_userns");
  const label = machine.read("/proc/self/attr/apparmor/current").trim() || "none";
  return [
    { kind: "bwrap", check: "bubblewrap", fact: version === undefined ? "not found in PATH" : `version ${version}` },
    {
      kind: "namespaces",
      check: "user namespaces",
      fact: `at most ${most || "unknown"}${clone && `, clone ${clone}`}`,
    },
    {
      kind: "apparmor",
      check: "AppArmor",
      fact: `profile ${label}, ${apparmor === "1" ? "restricts" : "no restriction of"} user namespaces`,
    },
    { kind: "seccomp", check: "seccomp", fact: `${filters}${container ? `, in a container (${container})` : ""}` },
    { kind: "proc", check: "/proc", fact: coveredParts(machine) },
  ];
}

function coveredParts({ read }: Pick<Machine, "read">): string {
  const covered = [...read("/proc/self/mountinfo").matchAll(/^(?:\S+ ){4}(\/proc\/\S+) /gm)].map(([, path]) => path!);
  return covered.length === 0 ? "nothing is mounted over parts of it" : `mounted over: ${covered.join(", ")}`;
}

/** Version 0.8 has `--disable-userns`. */
function isOld(version: string | undefined): boolean {
  const [major = 0, minor = 0] = (version ?? "").split(".").map(Number);
  return version !== undefined && major === 0 && minor < 8;
}
