import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Redactor } from "../../src/secrets/redactor.ts";
import { assert as forAll, property, string, uniqueArray } from "../support/fast-check.ts";

function hiding(...values: string[]): Redactor {
  const redactor = new Redactor();
  for (const value of values) redactor.add(value);
  return redactor;
}

describe("a value that is shown", () => {
  it("C8 has no more members and items than are looked through", () => {
    const many = Array.from({ length: 50_000 }, (_, index) => `v${index}`);
    const list = hiding("secret").hideIn(many) as string[];
    assert.ok(list.length < 5_000 && list.at(-1) === "[hidden]", `${list.length}`);
    const object = hiding("secret").hideIn(Object.fromEntries(many.map((name) => [name, name]))) as object;
    const names = Object.keys(object);
    assert.ok(names.length < 5_000 && names.at(-1) === "[hidden]", `${names.length}`);
    const lists = many.map(() => [{}]);
    assert.ok(JSON.stringify(hiding("secret").hideIn(lists)).length < 50_000);
  });
});

describe("a text that is shown", () => {
  const secret = "s3cret/value+with=signs";

  it("C8 has no value in it, as it is or as programs write it", () => {
    const hide = (text: string): string => hiding(secret).hide(text);
    assert.equal(hide(`a ${secret}${secret} b`), "a [hidden][hidden] b");
    const bytes = Buffer.from(secret);
    for (const form of [encodeURIComponent(secret), bytes.toString("base64url"), bytes.toString("hex")]) {
      assert.equal(hide(`(${form})`), "([hidden])");
    }
    assert.equal(hide("nothing of it"), "nothing of it");
  });

  it("C8 is not cut where it stands for itself, and has no beginning of a value taken out of it", async () => {
    let turns = 0;
    const hide = (text: string, lengthMin = 6): Promise<string> =>
      hiding(secret, "abcdefgh", "fghijklm").hideWhole(text, lengthMin, () => void turns++);
    assert.equal(
      await hide(`${secret}${secret}-abcdefghijklm-${secret.slice(0, 9)}`),
      `[hidden][hidden]-[hidden]-${secret.slice(0, 9)}`,
    );
    assert.equal(await hide(`abcdefgh ${secret}`, 12), "abcdefgh [hidden]");
    const long = "abcdefg ".repeat(40_000);
    assert.equal(await hide(long + secret), `${long}[hidden]`);
    assert.ok(turns > 10, `${turns}`);
    assert.equal(await hide("abcdefgh".repeat(600_000)), "[hidden]");
  });

  it("C8 has no part of one where it was cut", () => {
    const redactor = hiding(secret);
    assert.equal(redactor.hide(`see ${secret.slice(0, 9)}`), "see [hidden]");
    assert.equal(redactor.hide(`${secret.slice(9)} is it`), "[hidden] is it");
    assert.equal(redactor.hide(`a ${secret.slice(0, 9)}…${secret.slice(12)} b`), "a [hidden]…[hidden] b");
    assert.equal(
      redactor.hide(`${secret.slice(0, 9)} goes on`),
      `${secret.slice(0, 9)} goes on`,
      "it was not cut there",
    );
  });

  it("C8 has none of two values that overlap, nor one that has a mark of a cut in it", () => {
    assert.equal(hiding("abcdefgh", "fghijklm").hide("-abcdefghijklm-"), "-[hidden]-");
    assert.equal(hiding("before…after").hide("-before…after-"), "-[hidden]-");
    assert.equal(hiding("x7").hide("x7x7 x"), "[hidden][hidden] x");
  });

  it("C8 has no line of a key", () => {
    const lines = ["-----BEGIN KEY-----", "abcdefghijklmnopqrst", "short"];
    assert.equal(hiding(lines.join("\n")).hide(`${lines[1]}, ${lines[2]}`), "[hidden], short");
  });

  it("C8 has no value in it, whatever the values and the text are", () => {
    const value = string({ minLength: 2, maxLength: 12, unit: "grapheme-ascii" }).filter(
      (text) => !"[hidden]".includes(text),
    );
    forAll(
      property(uniqueArray(value, { minLength: 1, maxLength: 5 }), uniqueArray(string()), (values, between) => {
        const shown = hiding(...values).hide(values.map((each, index) => each + (between[index] ?? "")).join(""));
        for (const each of values) assert.ok(!shown.replaceAll("[hidden]", "\0").includes(each), `${each} in ${shown}`);
      }),
    );
  });

  it("C8 costs the forms of a new value alone, however many others there are", (context) => {
    const redactor = hiding("first value", "second value");
    redactor.hide("any");
    const made = context.mock.method(globalThis, "encodeURIComponent");
    redactor.add("third value");
    assert.equal(redactor.hide("first value, second value, third value"), "[hidden], [hidden], [hidden]");
    assert.deepEqual(
      made.mock.calls.map((call) => call.arguments[0]),
      ["third value"],
    );
  });

  it("C8 shows the oldest values again once all together have more than half a million characters", () => {
    const long = (at: number, letters: number): string => {
      const parts = Array.from({ length: letters / 6 }, (_, part) => String(at * 100_000 + part).padStart(6, "0"));
      return parts.join("");
    };
    const values = Array.from({ length: 10 }, (_, at) => long(at, 60_000));
    const redactor = hiding(...values);
    const hidden = values.map((value) => redactor.hide(`-${value}-`.slice(0, 20_000) + "…") === "-[hidden]…");
    assert.deepEqual(hidden, [false, false, ...Array.from({ length: 8 }, () => true)]);
    const one = long(1, 600_000);
    assert.equal(hiding(one).hide(`-${one.slice(0, 20_000)}…`), "-[hidden]…");
  });

  it("C8 is hidden as a whole where values are made to take long, and cut where it is long", () => {
    const alike = Array.from({ length: 10 }, (_, number) => `${"a".repeat(9_000 + number)}c`);
    const half = "a".repeat(4_000);
    assert.equal(hiding(...alike).hide(`${half}b${half}…`.repeat(500)), "[hidden]");
    const long = hiding(secret).hide(`${"x".repeat(40_000)}${secret}`);
    assert.equal(long, `${"x".repeat(32 * 1024)}…`);
    const many = Array.from({ length: 100 }, () => "y".repeat(1_000));
    const shown = hiding(secret).hideIn(many) as string[];
    assert.deepEqual([shown[0], shown.at(-1)], [many[0], "[hidden]"]);
  });
});
