import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../config.ts";
import { findCpuQuota } from "../../processes/quota/cpu-quota.ts";
import { findContainer } from "../../processes/sandbox-obstacle.ts";
import { degraded, failed, type Diagnosis, type Machine, pass } from "./finding.ts";

const MEGABYTE = 1024 * 1024;

export function checkNode({ nodeVersion }: Pick<Machine, "nodeVersion">): Diagnosis {
  const [major = 0, minor = 0] = nodeVersion.replace(/^v/, "").split(".").map(Number);
  const fix = "install Node.js 24 (https://nodejs.org/en/download), and Berth again with it";
  const message = `version ${major}.${minor}`;
  if (major < 20 || (major === 20 && minor < 19))
    return failed("Node.js", `${message}; Berth needs 20.19 or later`, fix);
  if (major % 2 === 1 || major < 22) return degraded("Node.js", `${message} gets no security fixes`, fix);
  return pass("Node.js", message);
}

/** A connection takes one, a guest process several. */
const FILES = { good: 4_096, least: 512 };

export function checkDescriptors(machine: Machine): Diagnosis[] {
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(machine.read("/proc/self/limits"))?.[1];
  if (hard === undefined) return [];
  const check = "descriptors";
  const message = `at most ${hard}`;
  if (Number(hard) >= FILES.good) return [pass(check, message)];
  const container = findContainer(machine);
  const fix =
    container === "docker" || container === "podman"
      ? `${container} run --ulimit nofile=65536 …`
      : "LimitNOFILE=65536 in the unit of systemd, or: ulimit -n 65536";
  return [(Number(hard) < FILES.least ? failed : degraded)(check, message, fix)];
}

/** Berth divides the CPU quota of its control group between tenants; without a quota, all CPUs. */
export function checkCgroup(machine: Machine): Diagnosis[] {
  if (machine.platform !== "linux") return [];
  const check = "control group";
  const quota = findCpuQuota();
  if (quota) return [pass(check, `${quota.cpus} CPUs`)];
  if (machine.read("/proc/self/cgroup") !== "" && / - cgroup2? /.test(machine.read("/proc/self/mountinfo")))
    return [pass(check, "no CPU quota")];
  const fix = "mount /sys/fs/cgroup read-only, as container engines do";
  return [degraded(check, "not visible: a CPU quota would not be noticed", fix)];
}

/** The data folder: its rights, its disk, and the clock that dates its files. */
export async function checkData(machine: Machine, { dataDir, database }: Config): Promise<Diagnosis[]> {
  if (database !== undefined) return [];
  const [folder, parent] = [dataDir, existingParent(dataDir)];
  const check = "data folder";
  const file = join(parent, `.berth-doctor-${process.pid}`);
  let opened: number;
  try {
    opened = openSync(file, "wx", 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const user = machine.uid === undefined ? "this user" : userInfo().username;
    const fix = `sudo install -d -m 700 -o ${user} "${folder}", or name another folder in BERTH_DATA`;
    return [failed(check, `${parent} cannot be written (${code})`, fix)];
  }
  try {
    return [...folderFindings(folder, machine), diskSpace(parent), ...(await timeDisk(file, opened))];
  } finally {
    closeSync(opened);
    rmSync(file, { force: true });
  }
}

function folderFindings(folder: string, { uid }: Machine): Diagnosis[] {
  const check = "data folder";
  const stat = statSync(folder, { throwIfNoEntry: false });
  if (!stat) return [pass(check, `${folder} will be created`)];
  if (uid !== undefined && stat.uid !== uid) {
    const message = `${folder} belongs to another user (${stat.uid}), and files of both would mix in it`;
    return [degraded(check, message, `run Berth as that user, or: sudo chown -R ${uid} "${folder}"`)];
  }
  if (uid !== undefined && (stat.mode & 0o077) !== 0) {
    const message = `other users may enter ${folder}, which contains keys`;
    return [degraded(check, message, `chmod 700 "${folder}"`)];
  }
  return [pass(check, folder)];
}

const FREE_MB = { good: 1_024, least: 64 };

function diskSpace(folder: string): Diagnosis {
  const { bavail, bsize } = statfsSync(folder);
  const freeMb = Math.floor((bavail * bsize) / MEGABYTE);
  const [check, message] = ["disk space", `${freeMb} MB are free`];
  if (freeMb >= FREE_MB.good) return pass(check, message);
  return (freeMb < FREE_MB.least ? failed : degraded)(check, message, "berth collect, or free space");
}

const FLUSHES = 15;
/** A save waits for about two. */
const SLOW_FLUSH_MS = 50;
/** How far the clock of files, and that of elapsed time, may be from the wall clock. */
const CLOCK_MS = 2_000;
const DRIFT_MS = 100;

async function timeDisk(file: string, descriptor: number): Promise<Diagnosis[]> {
  const [wall, elapsed] = [Date.now(), performance.now()];
  const times = Array.from({ length: FLUSHES }, (_, index) => {
    const began = performance.now();
    writeSync(descriptor, Buffer.alloc(4_096, index));
    fsyncSync(descriptor);
    return performance.now() - began;
  });
  const median = times.sort((one, other) => one - other)[FLUSHES >> 1]!;
  const message = `a write reaches the disk in ${median.toFixed(1)} ms (median of ${FLUSHES})`;
  await sleep(DRIFT_MS);
  const drift = Date.now() - wall - (performance.now() - elapsed);
  const skew = statSync(file).mtimeMs - Date.now();
  return [
    median <= SLOW_FLUSH_MS
      ? pass("disk flush", message)
      : degraded("disk flush", message, "put the data folder (BERTH_DATA) on a local SSD"),
    compareClocks(drift, skew),
  ];
}

/** `drift`: of the wall clock against elapsed time; `skew`: of the disk's clock against the wall clock. */
export function compareClocks(drift: number, skew: number): Diagnosis {
  const check = "clock";
  const fix = "sudo timedatectl set-ntp true";
  if (Math.abs(drift) > DRIFT_MS)
    return degraded(check, `it was set by ${Math.round(drift)} ms during this check`, fix);
  if (Math.abs(skew) > CLOCK_MS)
    return degraded(check, `it differs by ${Math.round(skew)} ms from the one of the store`, fix);
  return pass(check, "steady, and agrees with the one of the store");
}

function existingParent(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : existingParent(dirname(folder));
}
