import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { patientEnv } from "../support/patience.ts";
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

  it("keeps each change that a caller was told of, and at most those besides that were on their way", async (t) => {
    const start = async (): Promise<ServeProcess> => {
      const served = await ServeProcess.start(["--port", "0", "--data", data], { ...patientEnv, TMPDIR });
      t.after(() => served.end("SIGKILL"));
      return served;
    };
    let served = await start();
    assert.equal((await apiOf(served).put("/definitions/counter", COUNTER)).status, 201);
    let least = 0;
    for (let round = 0; round < 3; round++) {
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
      served = await start();
      const { content } = await call(`${served.url}/mcp/counter`, "counted");
      const counted = Number(content[0].text);
      assert.ok(counted >= told && counted <= told + 4, `${counted} after ${told}`);
      least = counted;
    }
  });
});
