import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readAppUri, readCallers } from "../../src/contract/apps.ts";

describe("what a tool says of its app", () => {
  it("is a ui:// URI, at the newer or the older place, or nothing", () => {
    const uri = "ui://clock/page.html";
    assert.equal(readAppUri({ _meta: { ui: { resourceUri: uri } } }), uri);
    assert.equal(readAppUri({ _meta: { "ui/resourceUri": uri } }), uri);
    assert.equal(readAppUri({ _meta: { ui: { resourceUri: uri }, "ui/resourceUri": "ui://other" } }), uri);
    for (const other of ["https://example.org/page.html", "file:///etc/passwd", "data:text/html,x", "page.html", 7]) {
      assert.equal(readAppUri({ _meta: { ui: { resourceUri: other } } }), undefined, String(other));
      assert.equal(readAppUri({ _meta: { "ui/resourceUri": other } }), undefined, String(other));
    }
    for (const _meta of [undefined, null, "ui://x", [], { ui: uri }]) assert.equal(readAppUri({ _meta }), undefined);
  });

  it("lets models and apps call the tool, unless it names the ones that may", () => {
    const of = (visibility: unknown) => readCallers({ _meta: { ui: { visibility } } });
    for (const unsaid of [undefined, "app", {}]) assert.deepEqual(of(unsaid), { model: true, app: true });
    assert.deepEqual(of(["app"]), { model: false, app: true });
    assert.deepEqual(of(["model"]), { model: true, app: false });
    assert.deepEqual(of(["people"]), { model: false, app: false });
    assert.deepEqual(of([]), { model: false, app: false });
  });
});
