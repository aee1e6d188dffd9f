import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { readOr } from "../process-tree.ts";

/**
 * The processor time that the control group of this process may use (`cgroups(7)`), which is how containers and
 * services are limited. When a group has used up its quota for a period, Linux stops all of its processes until the
 * next.
 */
export interface ProcessorQuota {
  /** In processors: 1.5 is one and a half times the elapsed time. */
  readonly processors: number;
  readonly periodMs: number;
  /** Milliseconds of processor time that the group has used since it was made. Throws when that cannot be read. */
  usedMs(): number;
}

/** The tightest quota of this process; undefined where there is none, or where the use cannot be read. */
export function findProcessorQuota(folder = "/proc/self"): ProcessorQuota | undefined {
  try {
    const groups = linesOf(`${folder}/cgroup`).map((line) => line.split(":"));
    const mounts = linesOf(`${folder}/mountinfo`).map(mountOf);
    const found = [...quotasOfUnified(groups, mounts), ...quotasOfLegacy(groups, mounts)];
    return found.sort((one, other) => one.processors - other.processors)[0];
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
function mountOf(line: string): Mount {
  const [before, after] = line.split(" - ") as [string, string];
  const [, , , root, point] = before.split(" ") as [string, string, string, string, string];
  const [type, , options] = after.split(" ") as [string, string, string];
  return { root, point, type, options: options.split(",") };
}

function quotasOfUnified(groups: Groups, mounts: readonly Mount[]): ProcessorQuota[] {
  const path = groups.find(([number]) => number === "0")?.[2];
  const mount = mounts.find(({ type }) => type === "cgroup2");
  if (path === undefined || !mount) return [];
  return foldersOf(mount, path).flatMap((folder) => {
    const [quota, period] = (readOr(join(folder, "cpu.max")) || "max").trim().split(" ");
    const usedMs = (): number =>
      Number(/^usage_usec (\d+)$/m.exec(readFileSync(join(folder, "cpu.stat"), "latin1"))![1]) / 1_000;
    return quotaOf(Number(quota), Number(period), usedMs);
  });
}

/** Reads version 1, where processor time is accounted for in a hierarchy of its own, or in the same. */
function quotasOfLegacy(groups: Groups, mounts: readonly Mount[]): ProcessorQuota[] {
  const placeOf = (controller: string): { mount: Mount; path: string } | undefined => {
    const path = groups.find(([, controllers]) => controllers!.split(",").includes(controller))?.[2];
    const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes(controller));
    return path !== undefined && mount ? { mount, path } : undefined;
  };
  const [limited, accounted] = [placeOf("cpu"), placeOf("cpuacct")];
  // Use that is accounted for elsewhere is not what is limited here.
  if (!limited || !accounted || limited.path !== accounted.path) return [];
  const accounts = foldersOf(accounted.mount, accounted.path);
  return foldersOf(limited.mount, limited.path).flatMap((folder, depth) => {
    const account = join(accounts[depth]!, "cpuacct.usage");
    const usedMs = (): number => Number(readFileSync(account, "latin1")) / 1_000_000;
    const [quota, period] = ["quota", "period"].map((name) => Number(readOr(join(folder, `cpu.cfs_${name}_us`)) || -1));
    return quotaOf(quota!, period!, usedMs);
  });
}

function quotaOf(quotaUs: number, periodUs: number, usedMs: () => number): ProcessorQuota[] {
  if (!(quotaUs > 0 && periodUs > 0)) return [];
  // A failure to read shows now, and not while somebody relies on it.
  usedMs();
  return [{ processors: quotaUs / periodUs, periodMs: periodUs / 1_000, usedMs }];
}

/** The group's own folder and those above it, as far as they are visible here, the nearest first. */
function foldersOf({ root, point }: Mount, path: string): string[] {
  const inside = relative(root, path);
  const names = inside.startsWith("..") ? [] : inside.split("/").filter(Boolean);
  return Array.from({ length: names.length + 1 }, (_, above) => join(point, ...names.slice(0, names.length - above)));
}

function linesOf(file: string): string[] {
  return readFileSync(file, "utf8").split("\n").filter(Boolean);
}
