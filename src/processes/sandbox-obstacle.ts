import { existsSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../config.ts";
import { readIfReadable } from "./process-tree.ts";

/** The part of a machine that a diagnosis reads. */
export interface MachineView {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The text of a file; "" if it cannot be read. */
  read(file: string): string;
  exists(file: string): boolean;
}

/** The reason that keeps the sandbox from working, and the command or file that fixes it on this machine. */
export interface SandboxObstacle {
  readonly kind: "platform" | "bwrap" | "namespaces" | "apparmor" | "seccomp" | "proc" | "unknown";
  readonly cause: string;
  readonly fix: string;
}

export const thisMachine: MachineView = {
  platform: process.platform,
  env: process.env,
  read: readIfReadable,
  exists: existsSync,
};

/** The files for administrators that Berth's package contains. */
export const deployFile = (name: string): string => join(packageRoot, "deploy", name);

/** Explains a failed trial of the sandbox: `problem` is what its program wrote. */
export function findSandboxObstacle(problem: string, machine: MachineView = thisMachine): SandboxObstacle {
  const setting = (name: string): string => machine.read(`/proc/sys/${name}`).trim();
  const container = findContainer(machine);
  if (machine.platform !== "linux")
    return {
      kind: "platform",
      cause: `the sandbox needs Linux, and this is ${machine.platform}`,
      fix: "run Berth on Linux: in a virtual machine, in a container, or in WSL 2",
    };
  if (/not installed|unknown option|unrecognized option/i.test(problem))
    return {
      kind: "bwrap",
      cause: "bubblewrap 0.8 or newer is missing",
      fix: installCommand(machine, "bubblewrap"),
    };
  if (setting("user/max_user_namespaces") === "0") return namespacesOff("user.max_user_namespaces", 15_000);
  if (setting("kernel/unprivileged_userns_clone") === "0") return namespacesOff("kernel.unprivileged_userns_clone", 1);
  if (isProcObstacle(problem))
    return {
      kind: "proc",
      cause: "parts of /proc are covered or read-only, as in most containers",
      fix: container ? containerFix(container) : "run Berth where nothing is mounted below /proc",
    };
  if (container && /^Seccomp:\s*2$/m.test(machine.read("/proc/self/status")) && !/Permission denied/.test(problem))
    return {
      kind: "seccomp",
      cause: "the container's seccomp profile forbids user namespaces",
      fix: containerFix(container),
    };
  if (container && isConfinedByAppArmor(machine))
    return { kind: "apparmor", cause: "the container's AppArmor profile forbids mounts", fix: containerFix(container) };
  if (setting("kernel/apparmor_restrict_unprivileged_userns") === "1")
    return {
      kind: "apparmor",
      cause: "AppArmor denies user namespaces to programs without a profile (Ubuntu 23.10 and later)",
      fix:
        `sudo install -m 644 "${deployFile("apparmor/berth-bwrap")}" /etc/apparmor.d/berth-bwrap && ` +
        "sudo apparmor_parser -r /etc/apparmor.d/berth-bwrap",
    };
  return {
    kind: "unknown",
    cause: "this user may not create user namespaces, or a file of Node.js or Berth is unreadable for it",
    fix: "find the cause with: bwrap --unshare-all --ro-bind / / --proc /proc true",
  };
}

export function withObstacle(symptom: string, problem?: string): string {
  const { cause, fix } = findSandboxObstacle(problem ?? symptom);
  return `${symptom}${problem === undefined ? "" : ` (${problem})`}: ${cause}; to fix it: ${fix}`;
}

/** The wording of bubblewrap if it may not mount a `/proc`, or not write to `/proc/sys`. */
export function isProcObstacle(problem: string): boolean {
  return /Can't mount proc|max_user_namespaces: Read-only/.test(problem);
}

export type Container = "docker" | "kubernetes" | "podman";

export function findContainer({ env, exists }: Pick<MachineView, "env" | "exists">): Container | undefined {
  if (env["KUBERNETES_SERVICE_HOST"]) return "kubernetes";
  if (exists("/run/.containerenv")) return "podman";
  return exists("/.dockerenv") ? "docker" : undefined;
}

/** The options that give a container the complete sandbox. */
function containerFix(container: Container): string {
  const profile = deployFile("seccomp/berth.json");
  if (container === "kubernetes")
    return (
      `copy ${profile} to /var/lib/kubelet/seccomp/ on each node, and set in the pod: hostUsers: false, ` +
      "securityContext: {procMount: Unmasked, appArmorProfile: {type: Unconfined}, " +
      "seccompProfile: {type: Localhost, localhostProfile: berth.json}}"
    );
  const unmask = container === "podman" ? "unmask=ALL" : "systempaths=unconfined";
  const options = [`seccomp="${profile}"`, "apparmor=unconfined", unmask];
  return `${container} run ${options.map((option) => `--security-opt ${option}`).join(" ")} …`;
}

function namespacesOff(name: string, value: number): SandboxObstacle {
  const file = "/etc/sysctl.d/60-berth.conf";
  return {
    kind: "namespaces",
    cause: `user namespaces are turned off (${name} = 0)`,
    fix: `echo ${name}=${value} | sudo tee ${file} && sudo sysctl -p ${file}`,
  };
}

function isConfinedByAppArmor({ read }: Pick<MachineView, "read">): boolean {
  const label = (read("/proc/self/attr/apparmor/current") || read("/proc/self/attr/current")).trim();
  return /\((?:enforce|kill)\)$/.test(label);
}

const INSTALLERS: readonly (readonly [distribution: RegExp, command: string])[] = [
  [/alpine/, "sudo apk add"],
  [/fedora|rhel|centos/, "sudo dnf install"],
];

/** The command that installs a package of the distribution. */
export function installCommand({ read }: Pick<MachineView, "read">, name: string): string {
  const ids = [...read("/etc/os-release").matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].map(([, id]) => id).join(" ");
  const [, command = "sudo apt-get install"] = INSTALLERS.find(([distribution]) => distribution.test(ids)) ?? [];
  return `${command} ${name}`;
}
