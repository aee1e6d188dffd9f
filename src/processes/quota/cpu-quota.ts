import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { readIfReadable } from "../process-tree.ts";

/**
 * The CPU time available to the control group of this process (`cgroups(7)`), by which containers and services are
 * limited. When a group has used up its quota for a period, Linux stops all of its processes until the next one.
 */
export interface CpuQuota {
  /** 1.5 is one and a half times the elapsed time. */
  readonly cpus: number;
  readonly periodMs: number;
  /** Milliseconds of CPU time that the group has used since it was created. Throws if that cannot be read. */
  usedMs(): number;
}

/** The tightest quota of this process; undefined if there is none, or if the usage cannot be read. */
export function findCpuQuota(folder = "/proc/self"): CpuQuota | undefined {
  try {
    const groups = readLines(`${folder}/cgroup`).map((line) => line.split(":"));
    const mounts = readLines(`${folder}/mountinfo`).map(parseMount);
    const quotas = [...unifiedQuotas(groups, mounts), ...legacyQuotas(groups, mounts)];
    return quotas.sort((one, other) => one.cpus - other.cpus)[0];
  } catch {
    return undefined;
  }
}

type Groups = readonly (readonly string[])[];

interface Mount {
  /** The part of the hierarchy that is mounted at `point`. */
  readonly root: string;
  readonly point: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** `31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw`, with any number of fields before the hyphen. */
function parseMount(line: string): Mount {
  const [before, after] = line.split(" - ") as [string, string];
  const [, , , root, point] = before.split(" ") as [string, string, string, string, string];
  const [type, , options] = after.split(" ") as [string, string, string];
  return { root, point, type, options: options.split(",") };
}

function unifiedQuotas(groups: Groups, mounts: readonly Mount[]): CpuQuota[] {
  const path = groups.find(([number]) => number === "0")?.[2];
  const mount = mounts.find(({ type }) => type === "cgroup2");
  if (path === undefined || !mount) return [];
  return visibleFolders(mount, path).flatMap((folder) => {
    const [quota, period] = (readIfReadable(join(folder, "cpu.max")) || "max").trim().split(" ");
    const usedMs = (): number =>
      Number(/^usage_usec (\d+)$/m.exec(readFileSync(join(folder, "cpu.stat"), "latin1"))![1]) / 1_000;
    return toQuota(Number(quota), Number(period), usedMs);
  });
}

/** Reads version 1, where CPU time is accounted for in a hierarchy of its own, or in the same one. */
function legacyQuotas(groups: Groups, mounts: readonly Mount[]): CpuQuota[] {
  const locate = (controller: string): { mount: Mount; path: string } | undefined => {
    const path = groups.find(([, controllers]) => controllers!.split(",").includes(controller))?.[2];
    const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes(controller));
    return path !== undefined && mount ? { mount, path } : undefined;
  };
  const [limited, accounted] = [locate("cpu"), locate("cpuacct")];
  // Usage that is accounted for in another group is not what is limited here.
  if (!limited || !accounted || limited.path !== accounted.path) return [];
  const accounts = visibleFolders(accounted.mount, accounted.path);
  return visibleFolders(limited.mount, limited.path).flatMap((folder, depth) => {
    const account = join(accounts[depth]!, "cpuacct.usage");
    const usedMs = (): number => Number(readFileSync(account, "latin1")) / 1_000_000;
    const [quota, period] = ["quota", "period"].map((name) =>
      Number(readIfReadable(join(folder, `cpu.cfs_${name}_us`)) || -1),
    );
    return toQuota(quota!, period!, usedMs);
  });
}

function toQuota(quotaUs: number, periodUs: number, usedMs: () => number): CpuQuota[] {
  if (!(quotaUs > 0 && periodUs > 0)) return [];
  // A failure to read shows now rather than later.
  usedMs();
  return [{ cpus: quotaUs / periodUs, periodMs: periodUs / 1_000, usedMs }];
}

/** The group's own folder and its ancestors, as far as they are visible here, nearest first. */
function visibleFolders({ root, point }: Mount, path: string): string[] {
  const inside = relative(root, path);
  const names = inside.startsWith("..") ? [] : inside.split("/").filter(Boolean);
  return Array.from({ length: names.length + 1 }, (_, above) => join(point, ...names.slice(0, names.length - above)));
}

function readLines(file: string): string[] {
  return readFileSync(file, "utf8").split("\n").filter(Boolean);
}
