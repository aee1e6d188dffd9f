import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { apiOf } from "../support/api.ts";
import { withStatus } from "../support/berth.ts";
import { holdTimeouts } from "../support/clock.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";

const GOOD = "export const one = (): number => 1;\n";
const FETCHES = `const rates = await fetch("https://example.com/rates");\n${GOOD}`;
const THROWS = `${GOOD}const key: string | undefined = undefined;\nif (!key) throw new RangeError("no key is set");\n`;
const ENDLESS = `for (let n = 0; ; n++) if (n < 0) break;\n${GOOD}`;
const FORGETS = `export const one = (): number => 1;\nconst rates = fetch("https://example.com/rates");\n`;

describe("a definition is loaded when it is saved", () => {
  // The service detects an endless top level by its processor time, so a busy machine makes no difference.
  const api = apiOf(berthInSuite({ texts: { "old.ts": THROWS }, env: { BERTH_LOAD_MS: "1000" } }));
  after(holdTimeouts(loadBounds.loadElapsedMs));

  const problemsOf = async (source: string): Promise<Record<string, unknown>[]> => {
    const { status, body } = await api.put("/definitions/tried", source);
    assert.equal(status, 422, JSON.stringify(body));
    assert.equal((await api.send("GET", "/definitions/tried")).status, 404);
    return body.error.data.problems as Record<string, unknown>[];
  };

  it("and refused with the line that fetches before any call, and what to do", async () => {
    const [problem] = await problemsOf(FETCHES);
    assert.deepEqual(problem, {
      severity: "error",
      code: "load-failed",
      message:
        "Its functions cannot be called because its top level fails: TypeError: the host can only be asked while a " +
        'call is in flight. Nothing can be fetched or read before a call: move "fetch" and the like into the function ' +
        "that needs it",
      file: "tried.ts",
      line: 1,
      column: 21,
      frame: problem!["frame"],
    });
    assert.match(String(problem["frame"]), /^> 1 \| const rates = await fetch\("https:\/\/example\.com\/rates"\);\n/);
  });

  it("and refused with the line that throws", async () => {
    const [problem] = await problemsOf(THROWS);
    assert.equal(problem!["code"], "load-failed");
    assert.match(String(problem!["message"]), /its top level fails: RangeError: no key is set$/);
    assert.deepEqual([problem!["file"], problem!["line"], problem!["column"]], ["tried.ts", 3, 17]);
  });

  it("and refused where its top level never ends, with the setting that bounds it", async () => {
    const [problem] = await problemsOf(ENDLESS);
    assert.equal(problem!["code"], "load-endless");
    assert.match(String(problem!["message"]), /more than 1000 ms of CPU time/);
  });

  it("and saved with a warning where it leaves a promise behind that fails", async () => {
    const { body } = await withStatus(201, api.put("/definitions/forgetful", FORGETS));
    const [problem] = body.review.problems as Record<string, unknown>[];
    assert.deepEqual([problem!["code"], problem!["severity"], problem!["line"]], ["load-rejected", "warning", 2]);
  });

  it("and saved where it loads; a review says what a save would", async () => {
    assert.equal((await api.put("/definitions/good", GOOD)).status, 201);
    const { body } = await api.send("POST", "/definitions/good/review", THROWS);
    assert.deepEqual(rows(body.problems, "code"), ["load-failed"]);
  });

  it("with the environment of its entry, in which placeholders stand for values", async () => {
    const needs = `
      const { env } = (globalThis as { process?: { env: Record<string, string | undefined> } }).process!;
      const said = [env["TOKEN"], env["LEVEL"]].join();
      if (said !== "Bearer placeholder-for-API_TOKEN,info") throw new Error(said);
      ${GOOD}`;
    assert.equal((await api.send("PUT", "/secrets/API_TOKEN", "a-very-secret-value")).status, 204);
    assert.equal((await api.put("/definitions/needs", GOOD)).status, 201);
    const entry = { secrets: ["API_TOKEN"], env: { TOKEN: "Bearer ${API_TOKEN}", LEVEL: "info" } };
    assert.equal((await api.put("/entries/needs", JSON.stringify(entry))).status, 200);
    await withStatus(200, api.put("/definitions/needs", needs));
  });

  it("and not when an earlier release of it is restored", async () => {
    assert.equal((await api.put("/definitions/old", GOOD)).status, 200);
    const { releases } = (await api.send("GET", "/servers/old/releases")).body;
    const { release } = releases.find(({ current }: { current: boolean }) => !current);
    await withStatus(200, api.send("POST", `/servers/old/releases/${release}/restore?allow_breaking=1`));
  });
});
