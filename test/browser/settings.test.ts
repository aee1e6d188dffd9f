import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  entryTextOf,
  readEntryText,
  switchAuto,
  switchesOf,
  switchTool,
  withField,
} from "../../src/browser/settings/entry-value.ts";

describe("the form of an entry", () => {
  const functions = ["shout", "whisper"];
  const on = (entry: Record<string, unknown>): string[] =>
    switchesOf(entry, functions).tools.flatMap(({ name, isOn }) => (isOn ? [name] : []));

  it("changes one field in its place, and leaves every other as it is", () => {
    const text = entryTextOf({ env: { A: "1" }, description: "Old", later: [1, { deep: null }] });
    const entry = readEntryText(text)!;
    assert.equal(entryTextOf(withField(entry, "description", "New")), text.replace("Old", "New"));
    assert.equal(entryTextOf(entry), text);
    assert.deepEqual(Object.keys(withField(entry, "description", undefined)), ["env", "later"]);
  });

  it("has nothing to show of a text that is no object", () => {
    for (const text of ["", "{", "[]", "null", '"a"']) assert.equal(readEntryText(text), undefined, text);
  });

  it("shows all functions as tools until the entry names some", () => {
    assert.deepEqual(on({}), functions);
    assert.deepEqual(on({ tools: { shout: {} } }), ["shout"]);
    assert.deepEqual(on({ tools: { shout: {} }, auto_discover: true }), functions);
    assert.deepEqual(on({ auto_discover: false }), []);
    assert.deepEqual(on({ tools: { alias: { function: "shout" } } }), ["alias"]);
  });

  it("names the others when one is switched off, so that the last one off leaves none", () => {
    const one = switchTool({ enabled: true }, functions, { name: "shout", isOn: false });
    assert.deepEqual(one, { enabled: true, auto_discover: false, tools: { whisper: {} } });
    const none = switchTool(one, functions, { name: "whisper", isOn: false });
    assert.deepEqual(on(none), []);
    assert.deepEqual(on(switchTool(none, functions, { name: "shout", isOn: true })), ["shout"]);
  });

  it("keeps what the entry says of a tool when all are offered again, and drops what says nothing", () => {
    const chosen = { auto_discover: false, tools: { shout: { title: "Shout" }, whisper: {} } };
    assert.deepEqual(switchAuto(chosen, functions, true), {
      auto_discover: true,
      tools: { shout: { title: "Shout" } },
    });
    assert.deepEqual(switchAuto({ auto_discover: false, tools: { whisper: {} } }, functions, true), {});
    assert.deepEqual(on(switchAuto({}, functions, false)), functions);
  });
});
