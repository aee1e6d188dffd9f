import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, withStatus } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const SOURCE = `
import prices from "./prices.csv";
import pixel from "./pixel.png";
/** Lists. */
export function list(): string { return prices; }
/** Shows. */
export function show(): { bytes: number[] } { return { bytes: [...pixel] }; }
`;
const PIXEL = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0x00]);
const OTHER = Buffer.from([0xff, 0xfe, 0x01]);

describe("a definition with files of texts and bytes", () => {
  const berth = berthInSuite({
    texts: { "shop.ts": SOURCE },
    beside: { "prices.csv": "bread,1\n", "pixel.png": PIXEL },
  });
  const api = apiOf(berth);

  const list = async (): Promise<string> => (await call(`${berth.url}/mcp/shop`, "list")).content[0].text as string;
  const show = async (): Promise<unknown> => (await call(`${berth.url}/mcp/shop`, "show")).structuredContent;
  const draft = async (): Promise<{ entry: string; files: Record<string, string> }> => {
    const { entry, files } = (await api.send("GET", "/definitions/shop")).body;
    return { entry, files };
  };
  const save = (files: Record<string, string>, entry = "shop.ts") =>
    api.send("PUT", "/definitions/shop", { entry, files }, { "If-Match": "*" });

  it("is served from a boot image", async () => {
    assert.equal(await list(), "bread,1\n");
    assert.deepEqual(await show(), { bytes: [...PIXEL] });
  });

  it("is read and saved with its bytes in base64, and every version is kept", async () => {
    const { entry, files } = await draft();
    assert.deepEqual(Object.keys(files), ["pixel.png", "prices.csv", "shop.ts"]);
    assert.equal(files["pixel.png"], PIXEL.toString("base64"));
    await withStatus(200, save({ ...files, "prices.csv": "bread,2\n", "pixel.png": OTHER.toString("base64") }, entry));
    assert.equal(await list(), "bread,2\n");
    assert.deepEqual(await show(), { bytes: [...OTHER] });
    const { versions } = (await api.send("GET", "/definitions/shop/history")).body as { versions: { cid: string }[] };
    const before = (await api.send("GET", `/definitions/shop/versions/${versions[1]!.cid}`)).body;
    assert.equal(before.files["pixel.png"], PIXEL.toString("base64"));
    const diff = (await api.send("GET", `/definitions/shop/diff?from=${versions[1]!.cid}`)).body as string;
    assert.match(diff, /-bread,1\n\+bread,2/);
  });

  it("is refused with bytes that are no base64, and with files that are too large", async () => {
    const { files } = await draft();
    for (const wrong of ["not base64!", "QQ", "QQ==\n", "QR=="]) {
      const { status, body } = await save({ ...files, "pixel.png": wrong });
      assert.equal(status, 422, wrong);
      assert.equal(body.error.data.problems[0].code, "not-base64");
      assert.match(body.error.message, /pixel\.png is a binary file: send it in base64, without line breaks/);
    }
    const large = Buffer.alloc(1024 * 1024 + 1).toString("base64");
    const { body } = await withStatus(422, save({ ...files, "pixel.png": large }));
    assert.match(body.error.message, /pixel\.png has 1048577 bytes, and a file has at most 1048576/);
    assert.deepEqual(await show(), { bytes: [...OTHER] });
  });

  it("is shown on its page", async () => {
    const page = await (await fetch(`${berth.url}/servers/shop`, { headers: { Accept: "text/html" } })).text();
    assert.match(page, /bread,2/);
    assert.ok(page.includes(OTHER.toString("base64")));
  });
});
