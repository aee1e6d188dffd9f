import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { startTestBerth } from "../../support/berth.ts";

describe("a page that edits a text", () => {
  it("has every letter of it that HTML can hold as it is read without scripts, and all others for the script", async () => {
    const berth = await startTestBerth({ mcps: {} });
    try {
      const files = { "lines.txt": "one\r\ntwo\rthree & <four>\u{1f4a1}\n".repeat(2_000), "zero.txt": "a\0b" };
      const api = apiOf(berth);
      const setups = await Promise.all(
        Object.entries(files).map(async ([name, text]) => {
          assert.equal((await api.put(`/variables/${name}`, text)).status, 201);
          const page = await fetch(`${berth.url}/variables/${name}`, { headers: { Accept: "text/html" } });
          const html = await page.text();
          const setup = JSON.parse(/<script type="application\/json">(.*)<\/script>/.exec(html)![1]!);
          return { area: /<textarea data-path="[^"]+"[^>]*>\n([^]*?)<\/textarea>/.exec(html)![1]!, files: setup.files };
        }),
      );
      const escaped = "one&#13;\ntwo&#13;three &amp; &lt;four&gt;\u{1f4a1}\n".repeat(2_000);
      assert.deepEqual(setups[0], { area: escaped, files: {} });
      assert.deepEqual(setups[1]!.files, { "zero.txt": "a\0b" });
    } finally {
      await berth.close();
    }
  });
});
