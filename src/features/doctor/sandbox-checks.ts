import type { Config } from "../../config.ts";
import { findContainer, findSandboxObstacle, type SandboxObstacle } from "../../processes/sandbox-obstacle.ts";
import { degraded, failed, type Diagnosis, type Machine, pass } from "./finding.ts";

/** Tries the sandbox, and attributes a failure to one of the parts that it needs. */
export async function checkSandbox(
  machine: Machine,
  { guests, limits }: Pick<Config, "guests" | "limits">,
): Promise<Diagnosis[]> {
  const version = /(\d+\.\d+(?:\.\d+)?)/.exec(await machine.run("bwrap", ["--version"]))?.[1];
  const trial = await machine.trySandbox(limits);
  const lacks = "reason" in trial ? undefined : trial.lacks;
  const problem = "reason" in trial ? (trial.problem ?? trial.reason) : isOld(version) ? "unknown option" : PROC;
  const isComplete = !("reason" in trial) && lacks === undefined;
  const { kind, cause, fix } = findSandboxObstacle(problem, machine);
  const report = "reason" in trial ? failed : degraded;
  const parts = machine.platform === "linux" ? sandboxParts(machine, version) : [];
  const found = parts.map((part) =>
    isComplete || part.kind !== kind ? pass(part.check, part.fact) : report(part.check, `${cause} (${part.fact})`, fix),
  );
  if ("reason" in trial) found.push(failed(SANDBOX, `code cannot be isolated (${problem}): ${cause}`, fix));
  else if (guests === "trusted")
    found.push(degraded(SANDBOX, "BERTH_GUESTS=trusted turns it off, though it works", "set BERTH_GUESTS=sandboxed"));
  else if (lacks !== undefined) found.push(degraded(SANDBOX, `reduced profile: ${lacks}`, fix));
  else found.push(pass(SANDBOX, "a guest and a script ran in the complete sandbox"));
  return found;
}

const SANDBOX = "sandbox";
/** The wording of bubblewrap for the obstacle that only reduces the profile. */
const PROC = "Can't mount proc";

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
