import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Saves } from "../../dist/test/support/saves.js";
import { makeImage, serve, writeImageSources } from "../bench/berth.mjs";
import { startService } from "./service.mjs";

const WRITERS = 8;
const KILLS = 20;
/** One after this number of kills. */
const KILLS_PER_CUT = 5;
/** `EXT4_IOC_SHUTDOWN` without a flush of the journal: from then on the file system is as a power cut leaves it. */
const CUT =
  'open my $folder, "<", $ARGV[0] or die $!; my $how = pack("L", 2); ioctl($folder, 0x8004587D, $how) or die $!';

/**
 * Makes saves in a Berth whose data folder is on an ext4 of its own, while Berth is killed with -9 and the power of its
 * disk is cut, and checks each acknowledged save and its audit record. For root.
 *
 * @param {number} count
 */
export async function cutPower(count) {
  const folder = mkdtempSync(join(tmpdir(), "berth-power-"));
  const [sources, image, data, disk] = ["sources", "image", "data", "disk"].map((name) => join(folder, name));
  for (const each of [sources, data]) mkdirSync(each);
  writeFileSync(join(sources, "echo.ts"), 'export const echo = (): string => "hello";\n');
  writeImageSources(sources, { echo: { definition: "echo.ts" } });
  await makeImage(sources, image);
  run("truncate", "--size=512M", disk);
  run("mkfs.ext4", "-q", disk);
  const mount = () => run("mount", "-o", "loop", disk, data);
  mount();
  let service;
  try {
    const launch = serve(folder, image, { data });
    service = await startService(
      (port) => {
        const { env, ...rest } = launch(port);
        return { ...rest, env: { ...env, BERTH_SAVES_PER_MINUTE_PER_TENANT: "0" } };
      },
      { folder, nodes: 1 },
    );
    const saves = new Saves(service.url, count);
    const writing = saves.write(WRITERS);
    let cuts = 0;
    for (let kills = 1; kills <= KILLS; kills++) {
      await untilSaved(saves, writing, (count * kills) / (KILLS + 1));
      await service.killAndRestart();
      if (kills % KILLS_PER_CUT !== 0) continue;
      await untilSaved(saves, writing, (count * (kills + 0.5)) / (KILLS + 1));
      run("perl", "-e", CUT, data);
      await service.killAndRestart(() => {
        run("umount", data);
        mount();
      });
      cuts += 1;
    }
    await writing;
    await service.stop();
    await saves.check({ folder, database: undefined });
    console.log(
      `${saves.acknowledged} acknowledged saves are there, each with one audit record, after ${KILLS} kills and ${cuts} power cuts; ` +
        `${saves.unanswered} others got no answer`,
    );
  } finally {
    for (const pid of service?.pids ?? []) spawnSync("kill", ["-9", String(pid)]);
    spawnSync("umount", ["-l", data]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function untilSaved(saves, writing, wanted) {
  const over = writing.then(() => true);
  while (saves.acknowledged < wanted) if (await Promise.race([over, sleep(5)])) return;
}

function run(command, ...args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error?.message ?? stderr.trim()}`);
}
