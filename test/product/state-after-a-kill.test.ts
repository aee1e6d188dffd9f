import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { berthInProcess } from "../support/in-process.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

const COUNTER = `import type { ToolContext } from "berth";
export const count = ({ state }: ToolContext): Promise<number> => state.update<number>("n", (n = 0) => n + 1);
export const counted = async ({ state }: ToolContext): Promise<number> => (await state.get<number>("n")) ?? 0;
`;

describe("a service that is killed while its servers write state", () => {
  // A killed service leaves its folder of work behind, until the next one of its temporary folder.
  const TMPDIR = mkdtempSync(join(tmpdir(), "berth-state-after-"));
  // Root's guests are nobody, and load their program from there.
  chmodSync(TMPDIR, 0o711);
  const data = join(TMPDIR, "data");
  after(() => rmSync(TMPDIR, { recursive: true, force: true }));

  it("keeps each change that a caller was told of, and few besides; backups and exports have it, however code runs", async (t) => {
    const start = async (mode: string, from = data): Promise<ServeProcess> => {
      const env = { TMPDIR, BERTH_GUESTS: mode };
      const served = await ServeProcess.start(["--port", "0", "--data", from], env);
      t.after(() => served.end("SIGKILL"));
      return served;
    };
    const modes = process.platform === "linux" ? ["sandboxed", "trusted"] : ["trusted"];
    const modeOf = (round: number): string => modes[round % modes.length]!;
    const countedAt = async ({ url }: ServeProcess): Promise<number> =>
      Number((await call(`${url}/mcp/counter`, "counted")).content[0].text);
    let served = await start(modeOf(0));
    assert.equal((await apiOf(served).put("/definitions/counter", COUNTER)).status, 201);
    let least = 0;
    for (let round = 0; round < 2; round++) {
      const { url } = served;
      let told = 0;
      const calls = { areOver: false };
      const caller = async (): Promise<void> => {
        while (!calls.areOver) {
          const { content, isError } = await call(`${url}/mcp/counter`, "count");
          if (isError !== true && content) told = Math.max(told, Number(content[0].text));
        }
      };
      const callers = Array.from({ length: 4 }, () => caller().catch(() => {}));
      await until(() => told >= least + 30);
      await served.end("SIGKILL");
      calls.areOver = true;
      await Promise.all(callers);
      served = await start(modeOf(round + 1));
      const counted = await countedAt(served);
      assert.ok(counted >= told && counted <= told + 4, `${counted} after ${told}`);
      least = counted;
    }

    const [backup, exported, elsewhere] = ["backup", "exported", "elsewhere"].map((name) => join(TMPDIR, name));
    const run = async (...args: string[]): Promise<void> => {
      const { code, stderr } = await berthInProcess(args, { env: { TMPDIR } });
      assert.equal(code, 0, stderr);
    };
    await run("backup", backup!, "--data", data);
    await run("tenant", "export", "default", "--out", exported!, "--data", data);
    await call(`${served.url}/mcp/counter`, "count");
    assert.equal(await countedAt(served), least + 1);
    await served.end("SIGKILL");
    await run("restore", backup!, "--data", data);
    await run("tenant", "import", exported!, "--as", "default", "--replace", "--yes", "--data", elsewhere!);
    for (const [index, from] of [data, elsewhere!].entries()) {
      const mode = modeOf(index);
      served = await start(mode, from);
      assert.equal(await countedAt(served), least, `${mode}, ${from === data ? "restored" : "imported"}`);
      await served.end("SIGTERM");
    }
  });
});
