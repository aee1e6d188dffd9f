import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { commandOf, descendants, isAlive } from "../support/processes.ts";
import { until } from "../support/until.ts";

const SMALL = "export const one = (): number => 1;\n";
/** A definition that takes the compiler some seconds. */
const LARGE = Array.from({ length: 120 }, (_, index) => {
  const fields = Array.from({ length: 20 }, (_, field) => `f${field}: ${index + field} | "a${field}"`).join("; ");
  return `export function tool${index}(given: { ${fields} }): number { return ${index}; }\n`;
}).join("");

const canMount = process.platform === "linux" && process.getuid?.() === 0;

describe("an edit that the service cannot carry out", { skip: process.platform !== "linux" && "reads /proc" }, () => {
  let berth: TestBerth;
  let folder: string;
  let disk: string | undefined;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-edits-faults-"));
    if (canMount) {
      disk = join(folder, "disk");
      await mkdir(disk);
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", disk]);
    }
    process.env["BERTH_TEST_OWN_COMPILER"] = "1";
    berth = await startTestBerth({ texts: { "small.ts": SMALL }, ...(disk && { config: { dataDir: disk } }) });
  });
  after(async () => {
    delete process.env["BERTH_TEST_OWN_COMPILER"];
    await berth?.close();
    if (disk) execFileSync("umount", [disk]);
    await rm(folder, { recursive: true, force: true });
  });

  it("is no fault of its author's when the compiler is killed: 503, and the next try is compiled", async () => {
    const api = apiOf(berth);
    let tries = 0;
    const killed = async () => {
      tries += 1;
      assert.equal((await api.put(`/definitions/first${tries}`, `${SMALL}// ${tries}\n`)).status, 201);
      const saving = api.put(`/definitions/large${tries}`, `${LARGE}// ${tries}\n`);
      const compilers = await until(() => {
        const found = descendants().filter((pid) => /discover\/compiler-child\.js/.test(commandOf(pid)));
        return found.length > 0 ? found : undefined;
      }, "the compiler works");
      for (const pid of compilers.filter(isAlive)) process.kill(pid, "SIGKILL");
      return saving;
    };
    // One that had nothing to do for a second ends by itself, and another one compiles what comes next.
    const { status, headers, body } = await until(async () => {
      const reply = await killed();
      return reply.status === 201 ? undefined : reply;
    });
    assert.equal(status, 503, JSON.stringify(body));
    assert.equal(body.error.code, "compiler_failed");
    assert.match(body.error.message, /killed from outside.*; try again/);
    assert.doesNotMatch(body.error.message, /simplify/);
    assert.ok(Number(headers.get("retry-after")) > 0);

    assert.equal((await api.put(`/definitions/large${tries}`, LARGE)).status, 201);
    assert.deepEqual((await call(`${berth.url}/mcp/large${tries}`, "tool7", given(7))).structuredContent, {
      result: 7,
    });
  });

  it(
    "is no fault of its author's when the disk is full: 503, and it is saved once there is room",
    { skip: !canMount && "mounts" },
    async () => {
      const api = apiOf(berth);
      const filler = join(disk!, "filler");
      await assert.rejects(writeFile(filler, Buffer.alloc(128 * 1024 * 1024)), { code: "ENOSPC" });
      for (const path of ["/definitions/second", "/variables/second"]) {
        const { status, body } = await api.put(path, path.startsWith("/def") ? SMALL : "x".repeat(100_000));
        assert.equal(status, 503, JSON.stringify(body));
        assert.equal(body.error.code, "store_failed");
        assert.doesNotMatch(body.error.message, new RegExp(disk!), "it names no path of the host");
      }
      await rm(filler);
      const saved = await until(async () => {
        const reply = await api.put("/definitions/second", SMALL);
        return reply.status === 201 ? reply : undefined;
      }, "it is saved");
      assert.equal(saved.status, 201);
    },
  );
});

function given(index: number): { given: object } {
  return { given: Object.fromEntries(Array.from({ length: 20 }, (_, field) => [`f${field}`, index + field])) };
}
