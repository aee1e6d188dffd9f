import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { everySession } from "../support/clients/every-session.ts";

/** More than two pages of everything. */
const COUNT = 120;

const numbered = (kind: string): string[] => Array.from({ length: COUNT }, (_, index) => `${kind}${index + 1}`);

const MANY = [
  ...numbered("tool").map((name) => `/** A tool. */ export function ${name}(): string { return "${name}"; }`),
  ...numbered("note").map((name) => `/** @resource many://${name} */ export function ${name}(): string { return ""; }`),
  ...numbered("shelf").map(
    (name) => `/** @resource many://${name}/{id} */ export function ${name}(id: string): string { return id; }`,
  ),
  ...numbered("prompt").map((name) => `/** @prompt */ export function ${name}(): string { return ""; }`),
].join("\n");

describe("lists of more than a page", () => {
  let berth: TestBerth;
  before(async () => {
    berth = await startTestBerth({ texts: { "many.ts": MANY } });
  });
  after(() => berth.close());

  for (const opener of everySession) {
    const { name } = opener;
    it(`T4.5 S2 ${name} goes through all pages, and gets each name once and in order`, async () => {
      const session = await opener.open(`${berth.url}/mcp/many`);
      try {
        assert.deepEqual(await session.tools(), numbered("tool"));
        assert.deepEqual(
          await session.resources(),
          numbered("note").map((each) => `many://${each}`),
        );
        assert.deepEqual(
          await session.templates(),
          numbered("shelf").map((each) => `many://${each}/{id}`),
        );
        assert.deepEqual(await session.prompts(), numbered("prompt"));
        assert.equal((await session.call(`tool${COUNT}`)).content[0]?.text, `tool${COUNT}`);
      } finally {
        await session.close();
      }
    });
  }
});
